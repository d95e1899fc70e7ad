#include "quant/recipe.h"

#include <array>

#include "core/check.h"

namespace fathom {
namespace {

struct Suffix {
  std::string_view text;
  TensorClass tensor_class;
};

// Ends of the names in layers ("blk.N." before them).
constexpr std::array kLayerSuffixes = {
    Suffix{"attn_norm.weight", TensorClass::kPrecise},
    Suffix{"ffn_norm.weight", TensorClass::kPrecise},
    Suffix{"attn_sinks.weight", TensorClass::kPrecise},
    Suffix{"attn_q_a_norm.weight", TensorClass::kPrecise},
    Suffix{"attn_kv_a_norm.weight", TensorClass::kPrecise},
    Suffix{"hc_attn_fn.weight", TensorClass::kPrecise},
    Suffix{"hc_attn_base.weight", TensorClass::kPrecise},
    Suffix{"hc_attn_scale.weight", TensorClass::kPrecise},
    Suffix{"hc_ffn_fn.weight", TensorClass::kPrecise},
    Suffix{"hc_ffn_base.weight", TensorClass::kPrecise},
    Suffix{"hc_ffn_scale.weight", TensorClass::kPrecise},
    Suffix{"attn_compressor_ape.weight", TensorClass::kPrecise},
    Suffix{"attn_compressor_norm.weight", TensorClass::kPrecise},
    Suffix{"indexer_compressor_ape.weight", TensorClass::kPrecise},
    Suffix{"indexer_compressor_norm.weight", TensorClass::kPrecise},
    Suffix{"ffn_gate_inp.weight", TensorClass::kPrecise},
    Suffix{"exp_probs_b.bias", TensorClass::kPrecise},
    Suffix{"ffn_gate_tid2eid.weight", TensorClass::kIdTable},
    Suffix{"attn_q_a.weight", TensorClass::kAttention},
    Suffix{"attn_q_b.weight", TensorClass::kAttention},
    Suffix{"attn_kv.weight", TensorClass::kAttention},
    Suffix{"attn_output_a.weight", TensorClass::kAttention},
    Suffix{"attn_output_b.weight", TensorClass::kAttention},
    Suffix{"attn_compressor_kv.weight", TensorClass::kCompressor},
    Suffix{"attn_compressor_gate.weight", TensorClass::kCompressor},
    Suffix{"indexer.attn_q_b.weight", TensorClass::kCompressor},
    Suffix{"indexer.proj.weight", TensorClass::kCompressor},
    Suffix{"indexer_compressor_kv.weight", TensorClass::kCompressor},
    Suffix{"indexer_compressor_gate.weight", TensorClass::kCompressor},
    Suffix{"ffn_gate_shexp.weight", TensorClass::kSharedExpert},
    Suffix{"ffn_up_shexp.weight", TensorClass::kSharedExpert},
    Suffix{"ffn_down_shexp.weight", TensorClass::kSharedExpert},
    Suffix{"ffn_gate_exps.weight", TensorClass::kExperts},
    Suffix{"ffn_up_exps.weight", TensorClass::kExperts},
    Suffix{"ffn_down_exps.weight", TensorClass::kExperts},
};

constexpr std::array kGlobalNames = {
    Suffix{"token_embd.weight", TensorClass::kEmbedding},   Suffix{"output.weight", TensorClass::kOutput},
    Suffix{"output_norm.weight", TensorClass::kPrecise},    Suffix{"output_hc_fn.weight", TensorClass::kPrecise},
    Suffix{"output_hc_base.weight", TensorClass::kPrecise}, Suffix{"output_hc_scale.weight", TensorClass::kPrecise},
};

// "blk.12.attn_norm.weight" -> "attn_norm.weight"; empty for other names.
std::string_view name_in_layer(std::string_view name) {
  constexpr std::string_view kPrefix = "blk.";
  if (!name.starts_with(kPrefix)) {
    return {};
  }
  const size_t dot = name.find('.', kPrefix.size());
  return dot == std::string_view::npos ? std::string_view{} : name.substr(dot + 1);
}

template <size_t N>
std::optional<TensorClass> find_name(const std::array<Suffix, N>& names, std::string_view name) {
  for (const Suffix& known : names) {
    if (known.text == name) {
      return known.tensor_class;
    }
  }
  return std::nullopt;
}

DType nearest_gguf_type(DType source) {
  switch (source) {
    case DType::kF8_E4M3:
      return DType::kQ8_0;
    case DType::kF4_E2M1:
      return DType::kMXFP4;
    default:
      return source;
  }
}

}  // namespace

std::optional<TensorClass> classify_tensor(std::string_view name) noexcept {
  if (const auto global = find_name(kGlobalNames, name)) {
    return global;
  }
  return find_name(kLayerSuffixes, name_in_layer(name));
}

DType Recipe::choose(TensorClass tensor_class, DType source) const {
  std::optional<DType> chosen;
  switch (tensor_class) {
    case TensorClass::kPrecise:
      return DType::kF32;
    case TensorClass::kIdTable:
      return DType::kI32;
    case TensorClass::kEmbedding:
      chosen = embedding;
      break;
    case TensorClass::kOutput:
      chosen = output;
      break;
    case TensorClass::kAttention:
      chosen = attention;
      break;
    case TensorClass::kCompressor:
      chosen = compressor;
      break;
    case TensorClass::kSharedExpert:
      chosen = shared;
      break;
    case TensorClass::kExperts:
      chosen = experts;
      break;
  }
  return chosen.value_or(all.value_or(nearest_gguf_type(source)));
}

DType fit_to_row(DType chosen, int64_t row) noexcept {
  return row % dtype_info(chosen).block_size == 0 ? chosen : DType::kBF16;
}

uint32_t gguf_file_type(DType experts) noexcept {
  struct Label {
    DType dtype;
    uint32_t number;
  };
  static constexpr std::array kLabels = {
      Label{DType::kF32, 0},      Label{DType::kF16, 1},     Label{DType::kQ4_0, 2},     Label{DType::kQ4_1, 3},
      Label{DType::kQ8_0, 7},     Label{DType::kQ5_0, 8},    Label{DType::kQ5_1, 9},     Label{DType::kQ2_K, 10},
      Label{DType::kQ3_K, 12},    Label{DType::kQ4_K, 15},   Label{DType::kQ5_K, 17},    Label{DType::kQ6_K, 18},
      Label{DType::kIQ2_XXS, 19}, Label{DType::kIQ2_XS, 20}, Label{DType::kIQ3_XXS, 23}, Label{DType::kIQ1_S, 24},
      Label{DType::kIQ4_NL, 25},  Label{DType::kIQ3_S, 26},  Label{DType::kIQ2_S, 28},   Label{DType::kIQ4_XS, 30},
      Label{DType::kIQ1_M, 31},   Label{DType::kBF16, 32},   Label{DType::kMXFP4, 38},
  };
  for (const Label& label : kLabels) {
    if (label.dtype == experts) {
      return label.number;
    }
  }
  FATHOM_CHECK(false, "no file has experts of this type");
}

std::span<const DType> convertible_types() noexcept {
  static constexpr std::array kTypes = {DType::kF32,   DType::kF16,     DType::kBF16,   DType::kQ8_0,  DType::kMXFP4,
                                        DType::kQ4_0,  DType::kQ4_1,    DType::kQ5_0,   DType::kQ5_1,  DType::kQ2_K,
                                        DType::kQ3_K,  DType::kQ4_K,    DType::kQ5_K,   DType::kQ6_K,  DType::kIQ1_S,
                                        DType::kIQ1_M, DType::kIQ2_XXS, DType::kIQ2_XS, DType::kIQ2_S, DType::kIQ3_XXS,
                                        DType::kIQ3_S, DType::kIQ4_NL,  DType::kIQ4_XS};
  return kTypes;
}

}  // namespace fathom
