#include "model/shapes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "core/error.h"

namespace fathom {
namespace {

// What the shapes have in common.
ModelConfig base_shape(std::string_view name, int n_layers) {
  ModelConfig c;
  c.name = fmt::format("synthetic-{}", name);
  c.n_layers = n_layers;
  c.rope_dim = 64;
  c.window = 128;
  c.index_dim = 128;
  c.yarn = {.factor = 16.0F, .original_context = 65536};
  c.swiglu_limit.assign(static_cast<size_t>(n_layers), 10.0F);
  c.shared_swiglu_limit = c.swiglu_limit;
  return c;
}

// Two layers of ratio `first`, then 4 and 128 in turn.
void set_ratios(ModelConfig& c, int first) {
  for (int i = 0; i < c.n_layers; ++i) {
    c.compress_ratios.push_back(i < 2 ? first : i % 2 == 0 ? 4 : 128);
  }
}

ModelConfig tiny_shape() {
  ModelConfig c = base_shape("tiny", 4);
  set_ratios(c, 0);
  c.hidden = 256;
  c.vocab = 512;
  c.context_length = 4096;
  c.n_heads = 4;
  c.head_dim = 128;
  c.q_lora_rank = 128;
  c.o_lora_rank = 64;
  c.o_groups = 2;
  c.index_heads = 4;
  c.index_topk = 8;
  c.n_experts = 8;
  c.n_experts_used = 2;
  c.expert_ffn = 256;
  c.n_hash_layers = 1;
  c.routed_scale = 1.5F;
  return c;
}

ModelConfig mid_shape() {
  ModelConfig c = base_shape("mid", 8);
  set_ratios(c, 0);
  c.hidden = 1024;
  c.vocab = 32768;
  c.context_length = 131072;
  c.n_heads = 16;
  c.head_dim = 512;
  c.q_lora_rank = 512;
  c.o_lora_rank = 256;
  c.o_groups = 4;
  c.index_heads = 32;
  c.index_topk = 512;
  c.n_experts = 32;
  c.n_experts_used = 6;
  c.expert_ffn = 1024;
  c.n_hash_layers = 2;
  c.routed_scale = 1.5F;
  return c;
}

ModelConfig flash_shape() {
  ModelConfig c = base_shape("flash", 43);
  set_ratios(c, 0);
  c.hidden = 4096;
  c.vocab = 129280;
  c.context_length = 1048576;
  c.n_heads = 64;
  c.head_dim = 512;
  c.q_lora_rank = 1024;
  c.o_lora_rank = 1024;
  c.o_groups = 8;
  c.index_heads = 64;
  c.index_topk = 512;
  c.n_experts = 256;
  c.n_experts_used = 6;
  c.expert_ffn = 2048;
  c.n_hash_layers = 3;
  c.routed_scale = 1.5F;
  return c;
}

ModelConfig pro_shape() {
  ModelConfig c = base_shape("pro", 61);
  set_ratios(c, 128);
  c.hidden = 7168;
  c.vocab = 129280;
  c.context_length = 1048576;
  c.n_heads = 128;
  c.head_dim = 512;
  c.q_lora_rank = 1536;
  c.o_lora_rank = 1024;
  c.o_groups = 16;
  c.index_heads = 64;
  c.index_topk = 1024;
  c.n_experts = 384;
  c.n_experts_used = 6;
  c.expert_ffn = 3072;
  c.n_hash_layers = 3;
  c.routed_scale = 2.5F;
  return c;
}

struct Shape {
  std::string_view name;
  ModelConfig (*make)();
};

constexpr std::array<Shape, 4> kShapes = {
    {{"tiny", tiny_shape}, {"mid", mid_shape}, {"flash", flash_shape}, {"pro", pro_shape}}};

}  // namespace

std::span<const std::string_view> shape_names() noexcept {
  static constexpr std::array<std::string_view, kShapes.size()> kNames = [] {
    std::array<std::string_view, kShapes.size()> names;
    for (size_t i = 0; i < names.size(); ++i) {
      names[i] = kShapes[i].name;
    }
    return names;
  }();
  return kNames;
}

ModelConfig named_shape(std::string_view name) {
  for (const Shape& shape : kShapes) {
    if (shape.name == name) {
      return shape.make();
    }
  }
  throw Error(ErrorCode::kBadRequest,
              fmt::format("shape '{}', expected one of {}", name, fmt::join(shape_names(), ", ")));
}

ModelConfig first_layers(ModelConfig c, int n_layers) {
  if (n_layers < 1 || n_layers > c.n_layers) {
    throw Error(ErrorCode::kBadRequest, fmt::format("{} layers of {}, expected 1 to {}", n_layers, c.name, c.n_layers));
  }
  const auto n = static_cast<size_t>(n_layers);
  c.n_layers = n_layers;
  c.compress_ratios.resize(n);
  c.swiglu_limit.resize(n);
  c.shared_swiglu_limit.resize(n);
  c.n_hash_layers = std::min(c.n_hash_layers, n_layers);
  return c;
}

}  // namespace fathom
