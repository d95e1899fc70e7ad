#include "weights/safetensors_source.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "support/expect_error.h"
#include "support/safetensors_builder.h"
#include "weights/safetensors_matrix.h"

namespace fathom {
namespace {

using test::SafetensorsBuilder;
using ST = SafetensorsDType;

std::string text_at(const std::byte* bytes, size_t n) { return {reinterpret_cast<const char*>(bytes), n}; }

void expect_error(SafetensorsBuilder& builder, ErrorCode code, std::string_view message) {
  EXPECT_ERROR((void)builder.source(), code, message);
}

TEST(SafetensorsSource, ReadsVectorsMatricesAndTables) {
  SafetensorsBuilder builder;
  builder.add("norm.weight", ST::kBF16, {8})
      .add("head.weight", ST::kF16, {16, 8})
      .add("layers.0.ffn.gate.tid2eid", ST::kI64, {16, 2})
      .add("layers.1.ffn.gate.tid2eid", ST::kI32, {16, 2})
      .add("hc_head_scale", ST::kF32, {})
      .add("layers.0.attn_hc.scale.other", ST::kF32, {3});
  const auto source = builder.source();
  EXPECT_EQ(source->path(), "m.safetensors");
  EXPECT_EQ(source->gguf(), nullptr);
  EXPECT_EQ(source->tensors().size(), 6U);

  const Weight* norm = source->find("output_norm.weight");
  ASSERT_NE(norm, nullptr);
  EXPECT_EQ(norm->name, "output_norm.weight");
  EXPECT_EQ(norm->dtype, DType::kBF16);
  EXPECT_EQ(norm->out_dim, 1);
  EXPECT_EQ(norm->in_dim, 8);
  EXPECT_EQ(norm->count(), 1);
  EXPECT_EQ(norm->scale_rows, 0);
  EXPECT_EQ(norm->slices[0].scales, nullptr);
  EXPECT_EQ(text_at(norm->slices[0].codes, 16), builder.bytes(0));

  const Weight* head = source->find("output.weight");
  EXPECT_EQ(head->dtype, DType::kF16);
  EXPECT_EQ(head->out_dim, 16);
  EXPECT_EQ(head->in_dim, 8);
  EXPECT_EQ(source->find("blk.0.ffn_gate_tid2eid.weight")->dtype, DType::kI64);
  EXPECT_EQ(source->find("blk.1.ffn_gate_tid2eid.weight")->dtype, DType::kI32);
  EXPECT_EQ(source->find("output_hc_scale.weight")->in_dim, 1);
  EXPECT_EQ(source->find("token_embd.weight"), nullptr);
}

TEST(SafetensorsSource, ListsUnknownTensorsUnderTheirOwnNames) {
  SafetensorsBuilder builder;
  builder.add("mtp.0.e_proj.weight", ST::kF8_E4M3, {128, 256})
      .add("mtp.0.e_proj.scale", ST::kF8_E8M0, {1, 2})
      .add("mtp.0.ffn.experts.3.w1.weight", ST::kI8, {4, 32})
      .add("mtp.0.ffn.experts.3.w1.scale", ST::kF8_E8M0, {4, 2})
      .add("something.else", ST::kF32, {2, 3, 4});
  const auto source = builder.source();
  EXPECT_EQ(source->tensors().size(), 3U);
  EXPECT_EQ(source->find("mtp.0.e_proj.weight")->dtype, DType::kF8_E4M3);
  EXPECT_EQ(source->find("mtp.0.ffn.experts.3.w1.weight")->in_dim, 64);
  const Weight* stack = source->find("something.else");
  EXPECT_EQ(stack->count(), 2);
  EXPECT_EQ(stack->slices[1].codes - stack->slices[0].codes, 48);
}

TEST(SafetensorsSource, PairsFp8WithItsScales) {
  for (const std::string scale : {"layers.0.attn.wq_a.scale", "layers.0.attn.wq_a.weight_scale_inv"}) {
    SafetensorsBuilder builder;
    builder.add(scale, ST::kF8_E8M0, {3, 2}).add("layers.0.attn.wq_a.weight", ST::kF8_E4M3, {300, 256});
    const auto source = builder.source();
    EXPECT_EQ(source->tensors().size(), 1U);
    const Weight* w = source->find("blk.0.attn_q_a.weight");
    ASSERT_NE(w, nullptr);
    EXPECT_EQ(w->dtype, DType::kF8_E4M3);
    EXPECT_EQ(w->out_dim, 300);
    EXPECT_EQ(w->in_dim, 256);
    EXPECT_EQ(w->scale_rows, 128);
    EXPECT_EQ(w->scale_cols, 128);
    EXPECT_EQ(text_at(w->slices[0].scales, 6), builder.bytes(0));
    EXPECT_EQ(text_at(w->slices[0].codes, 300 * 256), builder.bytes(1));
  }
}

TEST(SafetensorsSource, StacksPackedFp4Experts) {
  SafetensorsBuilder builder;
  const std::string experts = "layers.0.ffn.experts.";
  for (const int e : {2, 0, 10, 1, 3, 4, 5, 6, 7, 8, 9}) {  // no order in the file
    builder.add(experts + std::to_string(e) + ".w2.weight", ST::kI8, {4, 32})
        .add(experts + std::to_string(e) + ".w2.scale", ST::kF8_E8M0, {4, 2});
  }
  const auto source = builder.source();
  EXPECT_EQ(source->tensors().size(), 1U);
  const Weight* w = source->find("blk.0.ffn_down_exps.weight");
  ASSERT_NE(w, nullptr);
  EXPECT_EQ(w->dtype, DType::kF4_E2M1);
  EXPECT_EQ(w->out_dim, 4);
  EXPECT_EQ(w->in_dim, 64);
  EXPECT_EQ(w->scale_rows, 1);
  EXPECT_EQ(w->scale_cols, 32);
  ASSERT_EQ(w->count(), 11);
  EXPECT_EQ(text_at(w->slices[2].codes, 128), builder.bytes(0));
  EXPECT_EQ(text_at(w->slices[2].scales, 8), builder.bytes(1));
  EXPECT_EQ(text_at(w->slices[10].codes, 128), builder.bytes(4));
  EXPECT_EQ(text_at(w->slices[1].scales, 8), builder.bytes(7));
}

TEST(SafetensorsSource, SplitsStackedGateAndUp) {
  SafetensorsBuilder builder;
  builder.add("model.layers.0.mlp.experts.gate_up_proj", ST::kBF16, {3, 4, 8})
      .add("model.layers.0.mlp.experts.down_proj", ST::kF32, {3, 8, 2});
  const auto source = builder.source();
  const Weight* gate = source->find("blk.0.ffn_gate_exps.weight");
  const Weight* up = source->find("blk.0.ffn_up_exps.weight");
  const Weight* down = source->find("blk.0.ffn_down_exps.weight");
  ASSERT_TRUE(gate != nullptr && up != nullptr && down != nullptr);
  EXPECT_EQ(gate->out_dim, 2);
  EXPECT_EQ(gate->in_dim, 8);
  EXPECT_EQ(down->out_dim, 8);
  EXPECT_EQ(down->in_dim, 2);
  for (size_t e = 0; e < 3; ++e) {
    EXPECT_EQ(text_at(gate->slices[e].codes, 32), builder.bytes(0).substr(e * 64, 32));
    EXPECT_EQ(text_at(up->slices[e].codes, 32), builder.bytes(0).substr(e * 64 + 32, 32));
    EXPECT_EQ(text_at(down->slices[e].codes, 64), builder.bytes(1).substr(e * 64, 64));
  }
}

TEST(SafetensorsSource, RefusesExpertsThatDoNotFitTogether) {
  SafetensorsBuilder gap;
  gap.add("layers.0.ffn.experts.0.w1.weight", ST::kF32, {2, 4})
      .add("layers.0.ffn.experts.2.w1.weight", ST::kF32, {2, 4});
  expect_error(
      gap, ErrorCode::kBadModel,
      "m.safetensors: tensor layers.0.ffn.experts.2.w1.weight: expert 1 of blk.0.ffn_gate_exps.weight is missing");
  SafetensorsBuilder dtype;
  dtype.add("layers.0.ffn.experts.0.w1.weight", ST::kF32, {2, 4})
      .add("layers.0.ffn.experts.1.w1.weight", ST::kBF16, {2, 4});
  expect_error(dtype, ErrorCode::kBadModel, "experts.1.w1.weight: BF16 [2, 4], expected F32 [2, 4] as expert 0");
  SafetensorsBuilder shape;
  shape.add("layers.0.ffn.experts.0.w1.weight", ST::kF32, {2, 4})
      .add("layers.0.ffn.experts.1.w1.weight", ST::kF32, {4, 2});
  expect_error(shape, ErrorCode::kBadModel, "experts.1.w1.weight: F32 [4, 2], expected F32 [2, 4] as expert 0");
  SafetensorsBuilder blocks;
  blocks.add("layers.0.ffn.experts.0.w1.weight", ST::kF8_E4M3, {256, 256})
      .add("layers.0.ffn.experts.0.w1.scale", ST::kF8_E8M0, {2, 2})
      .add("layers.0.ffn.experts.1.w1.weight", ST::kF8_E4M3, {256, 256})
      .add("layers.0.ffn.experts.1.w1.scale", ST::kF8_E8M0, {8, 8});
  expect_error(blocks, ErrorCode::kBadModel,
               "F8_E4M3 [256, 256] with scales per 32 x 32, expected F8_E4M3 [256, 256] with scales per 128 x 128");
  SafetensorsBuilder rank;
  rank.add("layers.0.ffn.experts.0.w1.weight", ST::kF32, {2, 2, 4});
  expect_error(rank, ErrorCode::kBadModel, "experts.0.w1.weight: shape [2, 2, 4], expected one matrix");
  SafetensorsBuilder flat;
  flat.add("model.layers.0.mlp.experts.down_proj", ST::kF32, {2, 4});
  expect_error(flat, ErrorCode::kBadModel, "down_proj: shape [2, 4], expected [experts, rows, columns]");
  SafetensorsBuilder flat_pair;
  flat_pair.add("model.layers.0.mlp.experts.gate_up_proj", ST::kF32, {2, 4});
  expect_error(flat_pair, ErrorCode::kBadModel, "gate_up_proj: shape [2, 4], expected [experts, rows, columns]");
  SafetensorsBuilder odd;
  odd.add("model.layers.0.mlp.experts.gate_up_proj", ST::kF32, {2, 3, 4});
  expect_error(odd, ErrorCode::kBadModel, "gate_up_proj: shape [2, 3, 4], expected an even count of rows");
}

TEST(SafetensorsSource, RefusesScalesThatDoNotFit) {
  const std::string weight = "layers.0.attn.wkv.weight";
  const std::string scale = "layers.0.attn.wkv.scale";
  SafetensorsBuilder missing;
  missing.add(weight, ST::kF8_E4M3, {128, 128});
  expect_error(missing, ErrorCode::kBadModel,
               "m.safetensors: tensor layers.0.attn.wkv.weight: F8_E4M3 without scales, expected a tensor "
               "layers.0.attn.wkv.scale");
  SafetensorsBuilder packed;
  packed.add(weight, ST::kI8, {128, 128});
  expect_error(packed, ErrorCode::kBadModel, "wkv.weight: I8 without scales, expected a tensor");
  SafetensorsBuilder dtype;
  dtype.add(weight, ST::kF8_E4M3, {128, 128}).add(scale, ST::kF32, {1, 1});
  expect_error(dtype, ErrorCode::kUnsupported, "wkv.scale: scales of F32, expected F8_E8M0");
  SafetensorsBuilder shape;
  shape.add(weight, ST::kF8_E4M3, {300, 256}).add(scale, ST::kF8_E8M0, {4, 2});
  expect_error(
      shape, ErrorCode::kBadModel,
      "wkv.scale: shape [4, 2], expected a scale for each block (128 x 128 in official files) of FP8 [300, 256]");
  SafetensorsBuilder flat;
  flat.add(weight, ST::kF8_E4M3, {256, 256}).add(scale, ST::kF8_E8M0, {4});
  expect_error(flat, ErrorCode::kBadModel, "wkv.scale: shape [4], expected a scale for each block");
  SafetensorsBuilder group;
  group.add(weight, ST::kI8, {4, 64}).add(scale, ST::kF8_E8M0, {4, 2});
  expect_error(group, ErrorCode::kBadModel,
               "wkv.scale: shape [4, 2], expected a scale for each 32 columns of FP4 [4, 128]");
  SafetensorsBuilder ragged;
  ragged.add(weight, ST::kI8, {4, 24}).add(scale, ST::kF8_E8M0, {4, 2});
  expect_error(ragged, ErrorCode::kBadModel, "expected a scale for each 32 columns of FP4 [4, 48]");
  SafetensorsBuilder plain;
  plain.add(weight, ST::kBF16, {4, 64}).add(scale, ST::kF8_E8M0, {1, 1});
  expect_error(plain, ErrorCode::kBadModel, "wkv.weight: BF16 with scales (layers.0.attn.wkv.scale), expected FP8 or");
  SafetensorsBuilder orphan;
  orphan.add(scale, ST::kF8_E8M0, {1, 1});
  expect_error(orphan, ErrorCode::kBadModel, "wkv.scale: scales of no tensor");
  SafetensorsBuilder twice;
  twice.add(weight, ST::kF8_E4M3, {128, 128})
      .add(scale, ST::kF8_E8M0, {1, 1})
      .add(weight + "_scale_inv", ST::kF8_E8M0, {1, 1});
  expect_error(twice, ErrorCode::kBadModel, "wkv.weight_scale_inv: scales of no tensor");
  SafetensorsBuilder stack;
  stack.add("model.layers.0.mlp.experts.down_proj", ST::kF8_E4M3, {2, 128, 128});
  expect_error(stack, ErrorCode::kUnsupported, "down_proj: quantised with shape [2, 128, 128], expected a matrix");
}

TEST(SafetensorsSource, RefusesOtherTensors) {
  SafetensorsBuilder dtype;
  dtype.add("norm.weight", ST::kF64, {8});
  expect_error(
      dtype, ErrorCode::kUnsupported,
      "m.safetensors: tensor norm.weight: weights of F64; supported are F32, F16, BF16, I32, I64, F8_E4M3 and I8");
  SafetensorsBuilder rank;
  rank.add("norm.weight", ST::kF32, {1, 1, 1, 8});
  expect_error(rank, ErrorCode::kUnsupported, "shape [1, 1, 1, 8], expected at most 3 dimensions of 1 to 2147483647");
  SafetensorsBuilder empty;
  empty.add("norm.weight", ST::kF32, {0});
  expect_error(empty, ErrorCode::kUnsupported, "norm.weight: shape [0], expected at most 3 dimensions of 1 to");
  SafetensorsBuilder twice;
  twice.add("norm.weight", ST::kF32, {8}).add("model.norm.weight", ST::kF32, {8});
  expect_error(twice, ErrorCode::kBadModel, "tensor model.norm.weight: a second tensor that is output_norm.weight");
}

TEST(ScaleBlock, FollowsFromTheShape) {
  EXPECT_EQ(scale_block(1024, 8), 128);
  EXPECT_EQ(scale_block(1000, 8), 128);
  EXPECT_EQ(scale_block(1024, 32), 32);
  EXPECT_EQ(scale_block(1024, 1024), 1);
  EXPECT_EQ(scale_block(64, 1), 128);  // all rows share one
  EXPECT_EQ(scale_block(300, 1), 512);
  EXPECT_EQ(scale_block(1024, 3), std::nullopt);
  EXPECT_EQ(scale_block(1024, 0), std::nullopt);
  EXPECT_EQ(scale_block(4, 5), std::nullopt);
}

}  // namespace
}  // namespace fathom
