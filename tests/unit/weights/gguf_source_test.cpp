#include "weights/gguf_source.h"

#include <gtest/gtest.h>

#include <string>

#include "support/expect_error.h"
#include "support/file_bytes.h"
#include "support/gguf_bytes.h"

namespace fathom {
namespace {

using test::as_byte_span;
using test::GgufBytes;

constexpr uint32_t kF32 = 0;
constexpr uint32_t kQ8_0 = 8;

std::unique_ptr<WeightSource> open(const std::string& text) {
  return make_gguf_source(GgufFile::parse(as_byte_span(text), "m.gguf"));
}

TEST(GgufSource, ReadsVectorsMatricesAndStacks) {
  const std::string text = GgufBytes()
                               .tensor("blk.0.attn_norm.weight", {8}, kF32, 0)
                               .tensor("blk.0.attn_kv.weight", {64, 3}, kQ8_0, 32)
                               .tensor("blk.0.ffn_down_exps.weight", {32, 2, 5}, kQ8_0, 256)
                               .data(std::string(256 + 340, 'x'))
                               .build();
  const auto source = open(text);
  EXPECT_EQ(source->path(), "m.gguf");
  ASSERT_NE(source->gguf(), nullptr);
  EXPECT_TRUE(source->config_json().empty());
  EXPECT_TRUE(source->tokenizer_json().empty());
  ASSERT_EQ(source->tensors().size(), 3U);

  const Weight& norm = source->tensors()[0];
  EXPECT_EQ(norm.name, "blk.0.attn_norm.weight");
  EXPECT_EQ(norm.out_dim, 1);
  EXPECT_EQ(norm.in_dim, 8);
  const std::byte* data = norm.slices[0].codes;

  const Weight& kv = *source->find("blk.0.attn_kv.weight");
  EXPECT_EQ(kv.dtype, DType::kQ8_0);
  EXPECT_EQ(kv.out_dim, 3);
  EXPECT_EQ(kv.in_dim, 64);
  EXPECT_EQ(kv.count(), 1);
  EXPECT_EQ(kv.slices[0].codes, data + 32);

  const Weight& experts = *source->find("blk.0.ffn_down_exps.weight");
  EXPECT_EQ(experts.out_dim, 2);
  EXPECT_EQ(experts.in_dim, 32);
  ASSERT_EQ(experts.count(), 5);
  EXPECT_EQ(experts.slices[4].codes, data + 256 + 4 * 68);
  EXPECT_EQ(experts.slices[4].scales, nullptr);
}

TEST(GgufSource, RefusesDimensionsBeyondMatrices) {
  const std::string text = GgufBytes().tensor("t", {2, 1, 1, 2}, kF32, 0).data(std::string(32, 'x')).build();
  EXPECT_ERROR((void)open(text), ErrorCode::kUnsupported,
               "m.gguf: tensor t: dimensions [2, 1, 1, 2], expected at most [2147483647, 2147483647, 65536]");
  const std::string many = GgufBytes().tensor("t", {1, 1, 65537}, kF32, 0).data(std::string(4 * 65537, 'x')).build();
  EXPECT_ERROR((void)open(many), ErrorCode::kUnsupported, "m.gguf: tensor t: dimensions [1, 1, 65537, 1], expected");
}

}  // namespace
}  // namespace fathom
