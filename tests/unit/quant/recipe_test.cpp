#include "quant/recipe.h"

#include <gtest/gtest.h>

#include <set>

namespace fathom {
namespace {

TEST(ClassifyTensor, KnowsWhatEachTensorIsFor) {
  EXPECT_EQ(classify_tensor("token_embd.weight"), TensorClass::kEmbedding);
  EXPECT_EQ(classify_tensor("output.weight"), TensorClass::kOutput);
  EXPECT_EQ(classify_tensor("output_hc_fn.weight"), TensorClass::kPrecise);
  EXPECT_EQ(classify_tensor("blk.0.hc_ffn_fn.weight"), TensorClass::kPrecise);
  EXPECT_EQ(classify_tensor("blk.7.ffn_gate_inp.weight"), TensorClass::kPrecise);
  EXPECT_EQ(classify_tensor("blk.7.exp_probs_b.bias"), TensorClass::kPrecise);
  EXPECT_EQ(classify_tensor("blk.2.attn_compressor_ape.weight"), TensorClass::kPrecise);
  EXPECT_EQ(classify_tensor("blk.2.attn_compressor_kv.weight"), TensorClass::kCompressor);
  EXPECT_EQ(classify_tensor("blk.2.indexer.proj.weight"), TensorClass::kCompressor);
  EXPECT_EQ(classify_tensor("blk.42.attn_output_a.weight"), TensorClass::kAttention);
  EXPECT_EQ(classify_tensor("blk.42.ffn_down_shexp.weight"), TensorClass::kSharedExpert);
  EXPECT_EQ(classify_tensor("blk.42.ffn_down_exps.weight"), TensorClass::kExperts);
  EXPECT_EQ(classify_tensor("blk.0.ffn_gate_tid2eid.weight"), TensorClass::kIdTable);
}

TEST(ClassifyTensor, KnowsNothingOfOtherModules) {
  EXPECT_FALSE(classify_tensor("mtp.0.attn_norm.weight"));
  EXPECT_FALSE(classify_tensor("blk.43.nextn.eh_proj.weight"));
  EXPECT_FALSE(classify_tensor("attn_norm.weight"));
  EXPECT_FALSE(classify_tensor("blk.0."));
  EXPECT_FALSE(classify_tensor("blk.0"));
}

TEST(Recipe, KeepsTheSourceTypeOrTheNearest) {
  const Recipe recipe;
  EXPECT_EQ(recipe.choose(TensorClass::kExperts, DType::kF4_E2M1), DType::kMXFP4);
  EXPECT_EQ(recipe.choose(TensorClass::kAttention, DType::kF8_E4M3), DType::kQ8_0);
  EXPECT_EQ(recipe.choose(TensorClass::kOutput, DType::kBF16), DType::kBF16);
}

TEST(Recipe, SpecialTypeGoesBeforeTheGeneralOne) {
  Recipe recipe;
  recipe.all = DType::kF16;
  recipe.experts = DType::kMXFP4;
  recipe.shared = DType::kQ8_0;
  EXPECT_EQ(recipe.choose(TensorClass::kExperts, DType::kBF16), DType::kMXFP4);
  EXPECT_EQ(recipe.choose(TensorClass::kSharedExpert, DType::kBF16), DType::kQ8_0);
  EXPECT_EQ(recipe.choose(TensorClass::kAttention, DType::kBF16), DType::kF16);
}

TEST(Recipe, NeverNarrowsWhatSteersTheModel) {
  Recipe recipe;
  recipe.all = DType::kQ8_0;
  EXPECT_EQ(recipe.choose(TensorClass::kPrecise, DType::kBF16), DType::kF32);
  EXPECT_EQ(recipe.choose(TensorClass::kIdTable, DType::kI64), DType::kI32);
}

TEST(FitToRow, RowsThatDoNotDivideBecomeBF16) {
  EXPECT_EQ(fit_to_row(DType::kQ8_0, 64), DType::kQ8_0);
  EXPECT_EQ(fit_to_row(DType::kQ8_0, 48), DType::kBF16);
  EXPECT_EQ(fit_to_row(DType::kF16, 7), DType::kF16);
}

TEST(ConvertibleTypes, AreAllThatGgufHasForMatrices) {
  std::set<DType> expected;
  for (const DTypeInfo& info : all_dtypes()) {
    if (info.ggml_type >= 0 && info.dtype != DType::kI32 && info.dtype != DType::kI64) {
      expected.insert(info.dtype);
    }
  }
  const std::span<const DType> types = convertible_types();
  EXPECT_EQ(std::set<DType>(types.begin(), types.end()), expected);
  EXPECT_EQ(types.size(), expected.size());
}

TEST(GgufFileType, EveryTypeHasItsOwnNumber) {
  std::set<uint32_t> numbers;
  for (const DType type : convertible_types()) {
    numbers.insert(gguf_file_type(type));
  }
  EXPECT_EQ(numbers.size(), convertible_types().size());
  EXPECT_EQ(gguf_file_type(DType::kQ8_0), 7U);
  EXPECT_EQ(gguf_file_type(DType::kMXFP4), 38U);
}

}  // namespace
}  // namespace fathom
