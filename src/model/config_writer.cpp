#include "model/config_writer.h"

#include <string>
#include <utility>

#include "gguf/gguf_writer.h"
#include "model/config_fields.h"

namespace fathom {
namespace {

// Collects keys of the architecture.
class KeyWriter {
 public:
  void u32(std::string_view key, int value) { add(GgufKv::u32(full(key), static_cast<uint32_t>(value))); }
  void f32(std::string_view key, float value) { add(GgufKv::f32(full(key), value)); }
  void boolean(std::string_view key, bool value) { add(GgufKv::boolean(full(key), value)); }
  void string(std::string_view key, std::string_view value) { add(GgufKv::string(full(key), value)); }
  void u32s(std::string_view key, const std::vector<int>& values) {
    add(GgufKv::u32s(full(key), std::vector<uint32_t>(values.begin(), values.end())));
  }
  void f32s(std::string_view key, const std::vector<float>& values) { add(GgufKv::f32s(full(key), values)); }
  void add(GgufKv key) { keys_.push_back(std::move(key)); }

  [[nodiscard]] std::vector<GgufKv> take() { return std::move(keys_); }

 private:
  [[nodiscard]] static std::string full(std::string_view key) { return std::string("deepseek4.").append(key); }

  std::vector<GgufKv> keys_;
};

void write_yarn(const YarnParams& yarn, KeyWriter& out) {
  out.string("rope.scaling.type", "yarn");
  out.f32("rope.scaling.factor", yarn.factor);
  out.u32("rope.scaling.original_context_length", yarn.original_context);
  out.f32("rope.scaling.yarn_beta_fast", yarn.beta_fast);
  out.f32("rope.scaling.yarn_beta_slow", yarn.beta_slow);
}

// What ModelConfig does not hold because the code has no other choice; other readers ask.
void write_choices(const ModelConfig& c, KeyWriter& out) {
  constexpr int kSqrtSoftplus = 4;
  out.u32("expert_gating_func", kSqrtSoftplus);
  out.boolean("expert_weights_norm", true);
  out.u32("attention.head_count_kv", 1);
  out.u32("attention.value_length", c.head_dim);
  out.u32("embedding_length_out", c.hc * c.hidden);
  out.u32("feed_forward_length", c.expert_ffn);
}

}  // namespace

std::vector<GgufKv> gguf_config_metadata(const ModelConfig& c) {
  KeyWriter out;
  out.add(GgufKv::string("general.architecture", "deepseek4"));
  out.add(GgufKv::string("general.type", "model"));
  out.add(GgufKv::string("general.name", c.name));
  out.u32("block_count", c.n_layers);
  out.u32("context_length", c.context_length);
  out.u32("vocab_size", c.vocab);
  out.u32("rope.dimension_count", c.rope_dim);
  out.u32("hash_layer_count", c.n_hash_layers);
  out.u32s("attention.compress_ratios", c.compress_ratios);
  for (const IntField& field : kIntFields) {
    out.u32(field.gguf_key, c.*field.member);
  }
  for (const FloatField& field : kFloatFields) {
    out.f32(field.gguf_key, c.*field.member);
  }
  if (c.yarn.factor != 1.0F) {
    write_yarn(c.yarn, out);
  }
  out.f32s("swiglu_clamp_exp", c.swiglu_limit);
  out.f32s("swiglu_clamp_shexp", c.shared_swiglu_limit);
  write_choices(c, out);
  return out.take();
}

}  // namespace fathom
