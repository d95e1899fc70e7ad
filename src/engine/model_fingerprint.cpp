#include "engine/model_fingerprint.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <string>

#include "weights/weight_size.h"

namespace fathom {
namespace {

constexpr int kFormat = 1;  // of rows and records; grows when older ones must not be read
constexpr size_t kSampleBytes = 4096;
constexpr size_t kSampledSlices = 4;

// Beginning, middle and end of what a slice's codes or scales are.
void add_sample(std::string& text, const std::byte* bytes, uint64_t size) {
  if (bytes == nullptr) {
    return;
  }
  const uint64_t n = std::min<uint64_t>(size, kSampleBytes);
  for (const uint64_t at : {uint64_t{0}, (size - n) / 2, size - n}) {
    text.append(reinterpret_cast<const char*>(bytes + at), n);
  }
}

void add_weight(std::string& text, const Weight& w) {
  text += fmt::format("{} {} {}x{}x{} {}x{}\n", w.name, dtype_info(w.dtype).name, w.count(), w.out_dim, w.in_dim,
                      w.scale_rows, w.scale_cols);
  const uint64_t code_bytes = dtype_row_bytes(w.dtype, w.in_dim) * static_cast<uint64_t>(w.out_dim);
  const uint64_t slice_bytes = weight_bytes(w) / static_cast<uint64_t>(w.count());
  const size_t step = std::max<size_t>(w.slices.size() / kSampledSlices, 1);
  for (size_t i = 0; i < w.slices.size(); i += step) {
    add_sample(text, w.slices[i].codes, code_bytes);
    add_sample(text, w.slices[i].scales, slice_bytes - code_bytes);
  }
}

std::string describe(const ModelConfig& c) {
  return fmt::format(
      "{} {} {} {} | {} {} {} {} {} {} {} {} | {} {} {} | {} {} {} {} {} {} | {} {} {} {} {} {} | {} {} | "
      "{} {} {} {}\n",
      c.n_layers, c.hidden, c.vocab, c.context_length, c.n_heads, c.head_dim, c.rope_dim, c.q_lora_rank, c.o_lora_rank,
      c.o_groups, c.window, fmt::join(c.compress_ratios, ","), c.index_heads, c.index_dim, c.index_topk, c.rope_theta,
      c.compress_rope_theta, c.yarn.factor, c.yarn.original_context, c.yarn.beta_fast, c.yarn.beta_slow, c.n_experts,
      c.n_experts_used, c.expert_ffn, c.n_shared_experts, c.n_hash_layers, c.routed_scale,
      fmt::join(c.swiglu_limit, ","), fmt::join(c.shared_swiglu_limit, ","), c.hc, c.sinkhorn_iterations, c.hc_eps,
      c.rms_eps);
}

std::string describe(const CacheLayout& layout) {
  const CacheOptions& o = layout.options;
  return fmt::format("{} {} {} {} {}\n", o.activation_sim, static_cast<int>(o.kv_type), o.block_tokens,
                     layout.kv_row_bytes, layout.index_row_bytes);
}

}  // namespace

PrefixKey model_fingerprint(const WeightSource& source, const ModelConfig& config, const CacheLayout& layout,
                            std::string_view numerics) {
  const std::string form = fmt::format("{} {}\n", kFormat, numerics) + describe(config) + describe(layout);
  PrefixKey key = chain_key({}, std::as_bytes(std::span(form)));
  for (const Weight& weight : source.tensors()) {
    std::string text;
    add_weight(text, weight);
    key = chain_key(key, std::as_bytes(std::span(text)));
  }
  return key;
}

}  // namespace fathom
