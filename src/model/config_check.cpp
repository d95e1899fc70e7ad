#include "model/config_check.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <limits>

#include "core/error.h"

namespace fathom {
namespace {

class Checker {
 public:
  explicit Checker(const std::string& file) : file_(file) {}

  void require(bool holds, ErrorCode code, const std::string& what) const {
    if (!holds) {
      throw Error(code, fmt::format("{}: {}", file_, what));
    }
  }
  void consistent(bool holds, const std::string& what) const { require(holds, ErrorCode::kBadModel, what); }

  // Widths of activations and weights are ints.
  void fits(const char* what, int a, int b) const {
    const int64_t product = int64_t{a} * b;
    consistent(product <= std::numeric_limits<int>::max(), fmt::format("{} is {} * {} = {}, expected at most {}", what,
                                                                       a, b, product, std::numeric_limits<int>::max()));
  }

 private:
  const std::string& file_;
};

void check_attention(const ModelConfig& c, const Checker& check) {
  check.consistent(
      c.rope_dim % 2 == 0 && c.rope_dim < c.head_dim,
      fmt::format("rotary dimensions {}, expected an even number less than the head's {}", c.rope_dim, c.head_dim));
  check.consistent(
      c.rope_dim <= c.index_dim,
      fmt::format("rotary dimensions {}, expected at most the indexer head's {}", c.rope_dim, c.index_dim));
  check.fits("width of all heads", c.n_heads, c.head_dim);
  check.fits("width of all indexer heads", c.index_heads, c.index_dim);
  check.fits("width of all output groups", c.o_groups, c.o_lora_rank);
  check.consistent(c.n_heads * c.head_dim % c.o_groups == 0,
                   fmt::format("{} output groups, expected a divisor of heads * head dimension = {} * {}", c.o_groups,
                               c.n_heads, c.head_dim));
}

void check_layers(const ModelConfig& c, const Checker& check) {
  for (int i = 0; i < c.n_layers; ++i) {
    const int ratio = c.ratio(i);
    check.require(ratio == 0 || ratio == 4 || ratio == 128, ErrorCode::kUnsupported,
                  fmt::format("compress ratio {} of layer {}, expected 0, 4 or 128", ratio, i));
    for (const float limit : {c.swiglu_limit[static_cast<size_t>(i)], c.shared_swiglu_limit[static_cast<size_t>(i)]}) {
      check.consistent(std::isfinite(limit) && limit >= 0.0F,
                       fmt::format("SwiGLU limit {} of layer {}, expected a number from 0", limit, i));
    }
  }
}

void check_rope(const ModelConfig& c, const Checker& check) {
  check.consistent(
      c.rope_theta > 1.0F && c.compress_rope_theta > 1.0F,
      fmt::format("rotary bases {} and {}, expected numbers above 1", c.rope_theta, c.compress_rope_theta));
  check.consistent(c.yarn.factor >= 1.0F, fmt::format("YaRN factor {}, expected at least 1", c.yarn.factor));
  check.consistent(
      c.yarn.beta_fast >= c.yarn.beta_slow,
      fmt::format("YaRN beta_fast {}, expected at least beta_slow {}", c.yarn.beta_fast, c.yarn.beta_slow));
}

void check_experts(const ModelConfig& c, const Checker& check) {
  check.consistent(
      c.n_experts_used <= c.n_experts,
      fmt::format("{} experts per token, expected at most the {} there are", c.n_experts_used, c.n_experts));
  check.consistent(c.n_hash_layers <= c.n_layers,
                   fmt::format("{} hash layers, expected at most the {} there are", c.n_hash_layers, c.n_layers));
  check.fits("width of the shared experts", c.n_shared_experts, c.expert_ffn);
  check.fits("rows of the gate and up projections", 2, c.expert_ffn);
}

}  // namespace

void check_config(const ModelConfig& config, const std::string& file) {
  const Checker check(file);
  check_attention(config, check);
  check_layers(config, check);
  check_rope(config, check);
  check_experts(config, check);
  check.fits("width of the residual streams", config.hc, config.hidden);
}

float checked_positive(double value, const std::string& file, const std::string& key) {
  const auto narrow = static_cast<float>(value);
  if (!(narrow > 0.0F) || !std::isfinite(narrow)) {
    throw Error(ErrorCode::kBadModel, fmt::format("{}: {} is {}, expected a number above 0", file, key, value));
  }
  return narrow;
}

}  // namespace fathom
