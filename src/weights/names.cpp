#include "weights/names.h"

#include <fmt/format.h>

#include <array>
#include <charconv>

namespace fathom {
namespace {

struct Names {
  std::string_view gguf;
  std::string_view official;
  std::string_view port;
};

constexpr std::array kModelNames = {
    Names{"token_embd.weight", "embed.weight", "model.embed_tokens.weight"},
    Names{"output_norm.weight", "norm.weight", "model.norm.weight"},
    Names{"output.weight", "head.weight", "lm_head.weight"},
    Names{"output_hc_fn.weight", "hc_head_fn", "model.hc_head.hc_fn"},
    Names{"output_hc_base.weight", "hc_head_base", "model.hc_head.hc_base"},
    Names{"output_hc_scale.weight", "hc_head_scale", "model.hc_head.hc_scale"},
};

// Behind "blk.N.", "layers.N." and "model.layers.N.".
constexpr std::array kLayerNames = {
    Names{"hc_attn_fn.weight", "hc_attn_fn", "attn_hc.fn"},
    Names{"hc_attn_base.weight", "hc_attn_base", "attn_hc.base"},
    Names{"hc_attn_scale.weight", "hc_attn_scale", "attn_hc.scale"},
    Names{"hc_ffn_fn.weight", "hc_ffn_fn", "ffn_hc.fn"},
    Names{"hc_ffn_base.weight", "hc_ffn_base", "ffn_hc.base"},
    Names{"hc_ffn_scale.weight", "hc_ffn_scale", "ffn_hc.scale"},

    Names{"attn_norm.weight", "attn_norm.weight", "input_layernorm.weight"},
    Names{"attn_sinks.weight", "attn.attn_sink", "self_attn.sinks"},
    Names{"attn_q_a.weight", "attn.wq_a.weight", "self_attn.q_a_proj.weight"},
    Names{"attn_q_a_norm.weight", "attn.q_norm.weight", "self_attn.q_a_norm.weight"},
    Names{"attn_q_b.weight", "attn.wq_b.weight", "self_attn.q_b_proj.weight"},
    Names{"attn_kv.weight", "attn.wkv.weight", "self_attn.kv_proj.weight"},
    Names{"attn_kv_a_norm.weight", "attn.kv_norm.weight", "self_attn.kv_norm.weight"},
    Names{"attn_output_a.weight", "attn.wo_a.weight", "self_attn.o_a_proj.weight"},
    Names{"attn_output_b.weight", "attn.wo_b.weight", "self_attn.o_b_proj.weight"},

    Names{"attn_compressor_kv.weight", "attn.compressor.wkv.weight", "self_attn.compressor.kv_proj.weight"},
    Names{"attn_compressor_gate.weight", "attn.compressor.wgate.weight", "self_attn.compressor.gate_proj.weight"},
    Names{"attn_compressor_ape.weight", "attn.compressor.ape", "self_attn.compressor.position_bias"},
    Names{"attn_compressor_norm.weight", "attn.compressor.norm.weight", "self_attn.compressor.kv_norm.weight"},

    Names{"indexer.attn_q_b.weight", "attn.indexer.wq_b.weight", "self_attn.compressor.indexer.q_b_proj.weight"},
    Names{"indexer.proj.weight", "attn.indexer.weights_proj.weight",
          "self_attn.compressor.indexer.scorer.weights_proj.weight"},
    Names{"indexer_compressor_kv.weight", "attn.indexer.compressor.wkv.weight",
          "self_attn.compressor.indexer.kv_proj.weight"},
    Names{"indexer_compressor_gate.weight", "attn.indexer.compressor.wgate.weight",
          "self_attn.compressor.indexer.gate_proj.weight"},
    Names{"indexer_compressor_ape.weight", "attn.indexer.compressor.ape", "self_attn.compressor.indexer.position_bias"},
    Names{"indexer_compressor_norm.weight", "attn.indexer.compressor.norm.weight",
          "self_attn.compressor.indexer.kv_norm.weight"},

    Names{"ffn_norm.weight", "ffn_norm.weight", "post_attention_layernorm.weight"},
    Names{"ffn_gate_inp.weight", "ffn.gate.weight", "mlp.gate.weight"},
    Names{"ffn_gate_tid2eid.weight", "ffn.gate.tid2eid", "mlp.gate.tid2eid"},
    Names{"exp_probs_b.bias", "ffn.gate.bias", "mlp.gate.e_score_correction_bias"},
    Names{"ffn_gate_shexp.weight", "ffn.shared_experts.w1.weight", "mlp.shared_experts.gate_proj.weight"},
    Names{"ffn_up_shexp.weight", "ffn.shared_experts.w3.weight", "mlp.shared_experts.up_proj.weight"},
    Names{"ffn_down_shexp.weight", "ffn.shared_experts.w2.weight", "mlp.shared_experts.down_proj.weight"},
};

constexpr std::string_view kGateExperts = "ffn_gate_exps.weight";
constexpr std::string_view kUpExperts = "ffn_up_exps.weight";
constexpr std::string_view kDownExperts = "ffn_down_exps.weight";

// Behind "layers.N.ffn.experts.E.".
struct ExpertNames {
  std::string_view gguf;
  std::string_view official;
};
constexpr std::array kExpertNames = {
    ExpertNames{kGateExperts, "w1.weight"},
    ExpertNames{kUpExperts, "w3.weight"},
    ExpertNames{kDownExperts, "w2.weight"},
};

// Behind "model.layers.N.".
constexpr std::string_view kPortGateUpExperts = "mlp.experts.gate_up_proj";
constexpr std::string_view kPortDownExperts = "mlp.experts.down_proj";

// Takes `prefix` off the front of `text`.
bool take(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) {
    return false;
  }
  text.remove_prefix(prefix.size());
  return true;
}

// Takes "12." off the front of `text`. A number has one spelling only, so that two names never mean one tensor.
std::optional<int> take_index(std::string_view& text) {
  constexpr size_t kMaxDigits = 6;
  const size_t n_digits = text.find('.');
  if (n_digits == std::string_view::npos || n_digits == 0 || n_digits > kMaxDigits ||
      (text[0] == '0' && n_digits > 1)) {
    return std::nullopt;
  }
  int index = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + n_digits, index);
  if (error != std::errc() || end != text.data() + n_digits || index < 0) {
    return std::nullopt;
  }
  text.remove_prefix(n_digits + 1);
  return index;
}

template <class Table>
std::string_view find_gguf_name(const Table& table, std::string_view Names::*spelling, std::string_view name) {
  for (const Names& names : table) {
    if (names.*spelling == name) {
      return names.gguf;
    }
  }
  return {};
}

std::string layer_name(int layer, std::string_view rest) { return fmt::format("blk.{}.{}", layer, rest); }

std::optional<TensorMeaning> whole(std::string name) {
  return TensorMeaning{TensorContent::kWhole, std::move(name), {}, 0};
}

std::optional<TensorMeaning> official_expert(int layer, std::string_view rest) {
  const std::optional<int> expert = take_index(rest);
  if (!expert) {
    return std::nullopt;
  }
  for (const ExpertNames& names : kExpertNames) {
    if (names.official == rest) {
      return TensorMeaning{TensorContent::kExpert, layer_name(layer, names.gguf), {}, *expert};
    }
  }
  return std::nullopt;
}

std::optional<TensorMeaning> layer_tensor(std::string_view Names::*spelling, std::string_view rest) {
  const std::optional<int> layer = take_index(rest);
  if (!layer) {
    return std::nullopt;
  }
  if (const auto gguf = find_gguf_name(kLayerNames, spelling, rest); !gguf.empty()) {
    return whole(layer_name(*layer, gguf));
  }
  if (spelling == &Names::official) {
    return take(rest, "ffn.experts.") ? official_expert(*layer, rest) : std::nullopt;
  }
  if (rest == kPortGateUpExperts) {
    return TensorMeaning{TensorContent::kGateUpExperts, layer_name(*layer, kGateExperts),
                         layer_name(*layer, kUpExperts), 0};
  }
  if (rest == kPortDownExperts) {
    return TensorMeaning{TensorContent::kExperts, layer_name(*layer, kDownExperts), {}, 0};
  }
  return std::nullopt;
}

constexpr std::string_view kWeightSuffix = ".weight";
constexpr std::string_view kScaleSuffix = ".scale";
constexpr std::string_view kOldScaleSuffix = "_scale_inv";

}  // namespace

std::optional<TensorMeaning> meaning_of_safetensors_name(std::string_view name) {
  for (const auto spelling : {&Names::official, &Names::port}) {
    if (const auto gguf = find_gguf_name(kModelNames, spelling, name); !gguf.empty()) {
      return whole(std::string(gguf));
    }
  }
  std::string_view rest = name;
  if (take(rest, "layers.")) {
    return layer_tensor(&Names::official, rest);
  }
  if (take(rest, "model.layers.")) {
    return layer_tensor(&Names::port, rest);
  }
  return std::nullopt;
}

std::array<std::string, 2> scale_names(std::string_view weight_name) {
  std::string_view stem = weight_name;
  if (stem.ends_with(kWeightSuffix)) {
    stem.remove_suffix(kWeightSuffix.size());
  }
  return {std::string(stem) + std::string(kScaleSuffix), std::string(weight_name) + std::string(kOldScaleSuffix)};
}

bool is_scale_name(std::string_view name) noexcept {
  return name.ends_with(kScaleSuffix) || name.ends_with(kOldScaleSuffix);
}

std::array<std::string, 2> scaled_tensor_names(std::string_view scale_name) {
  const std::string_view suffix = scale_name.ends_with(kScaleSuffix) ? kScaleSuffix : kOldScaleSuffix;
  const std::string stem(scale_name.substr(0, scale_name.size() - suffix.size()));
  return {stem + std::string(kWeightSuffix), stem};
}

bool is_side_tensor(std::string_view name, int n_layers) noexcept {
  if (name.starts_with("mtp.") || name == "rope_freqs.weight" || name.ends_with(".inv_freq")) {
    return true;
  }
  std::string_view rest = name;
  if (take(rest, "layers.")) {
    return take_index(rest) && rest == "ffn.gate.bias_vl";
  }
  if (!take(rest, "blk.")) {
    return false;
  }
  const std::optional<int> layer = take_index(rest);
  return layer && (*layer >= n_layers || rest.starts_with("nextn.") || rest == "exp_probs_b_vl.bias" ||
                   rest == "rope_freqs.weight");
}

}  // namespace fathom
