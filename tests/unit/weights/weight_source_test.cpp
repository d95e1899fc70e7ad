#include "weights/weight_source.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <string>

#include "gguf/gguf_writer.h"
#include "support/expect_error.h"
#include "support/file_bytes.h"
#include "support/safetensors_builder.h"
#include "support/temp_dir.h"
#include "weights/names.h"

namespace fathom {
namespace {

namespace fs = std::filesystem;
using test::SafetensorsBuilder;
using test::TempDir;

const fs::path kOracle = fs::path(FATHOM_TEST_DATA_DIR) / "oracle";

size_t slice_bytes(const Weight& w) { return dtype_row_bytes(w.dtype, w.in_dim) * static_cast<size_t>(w.out_dim); }

void expect_same(const Weight& a, const Weight& b) {
  EXPECT_EQ(a.dtype, b.dtype) << a.name;
  EXPECT_EQ(a.out_dim, b.out_dim) << a.name;
  EXPECT_EQ(a.in_dim, b.in_dim) << a.name;
  ASSERT_EQ(a.count(), b.count()) << a.name;
  for (size_t i = 0; i < a.slices.size(); ++i) {
    EXPECT_EQ(std::memcmp(a.slices[i].codes, b.slices[i].codes, slice_bytes(a)), 0) << a.name << " slice " << i;
  }
}

TEST(WeightSource, BothSpellingsOfMiniAreTheSameTensors) {
  const auto port = WeightSource::open((kOracle / "mini").string());
  const auto official = WeightSource::open((kOracle / "mini" / "official.safetensors").string());
  EXPECT_EQ(port->path(), (kOracle / "mini").string());
  EXPECT_GT(port->tensors().size(), 100U);
  EXPECT_EQ(port->tensors().size(), official->tensors().size());
  for (const Weight& weight : port->tensors()) {
    EXPECT_TRUE(weight.name.starts_with("blk.") || weight.name.starts_with("output") ||
                weight.name.starts_with("token_embd"))
        << weight.name;
    const Weight* same = official->find(weight.name);
    ASSERT_NE(same, nullptr) << weight.name;
    expect_same(weight, *same);
  }
  EXPECT_FALSE(port->config_json().empty());
  EXPECT_EQ(port->config_json(), official->config_json());
  EXPECT_TRUE(port->tokenizer_json().empty());
}

TEST(WeightSource, ShapesOfMini) {
  const auto source = WeightSource::open((kOracle / "mini").string());
  const auto shape = [&](std::string_view name) {
    const Weight* w = source->find(name);
    return w == nullptr ? std::vector<int>{} : std::vector<int>{w->count(), w->out_dim, w->in_dim};
  };
  EXPECT_EQ(shape("token_embd.weight"), (std::vector<int>{1, 256, 64}));
  EXPECT_EQ(shape("blk.0.ffn_gate_exps.weight"), (std::vector<int>{8, 32, 64}));
  EXPECT_EQ(shape("blk.0.ffn_up_exps.weight"), (std::vector<int>{8, 32, 64}));
  EXPECT_EQ(shape("blk.0.ffn_down_exps.weight"), (std::vector<int>{8, 64, 32}));
  EXPECT_EQ(shape("blk.1.attn_compressor_ape.weight"), (std::vector<int>{1, 4, 64}));
  EXPECT_EQ(shape("blk.2.attn_compressor_ape.weight"), (std::vector<int>{1, 128, 32}));
  EXPECT_EQ(shape("blk.1.indexer.proj.weight"), (std::vector<int>{1, 16, 64}));
  EXPECT_EQ(shape("blk.0.ffn_gate_tid2eid.weight"), (std::vector<int>{1, 256, 2}));
  EXPECT_EQ(shape("output_hc_fn.weight"), (std::vector<int>{1, 4, 256}));
}

TEST(WeightSource, OpensTheOtherModels) {
  for (const fs::path& dir : {kOracle / "flash", kOracle / "k256"}) {
    const auto source = WeightSource::open(dir.string());
    for (const Weight& weight : source->tensors()) {
      EXPECT_FALSE(weight.name.starts_with("model.")) << weight.name;
    }
    EXPECT_NE(source->find("output.weight"), nullptr);
  }
}

TEST(WeightSource, OpensADirectoryInParts) {
  const fs::path dir = fs::path(FATHOM_SHARED_DIR) / "model";
  if (!fs::exists(dir)) {
    GTEST_SKIP() << dir << " is absent: no model in parts to open";
  }
  const auto source = WeightSource::open(dir.string());
  EXPECT_FALSE(source->tokenizer_json().empty());
  const Weight* first = source->find("token_embd.weight");
  const Weight* last = source->find("blk.4.ffn_down_exps.weight");
  ASSERT_TRUE(first != nullptr && last != nullptr);
  EXPECT_EQ(first->out_dim, 4096);
  EXPECT_EQ(last->count(), 4);
}

TEST(WeightSource, ReadsTheFilesBesideSafetensors) {
  const TempDir dir;
  SafetensorsBuilder builder;
  dir.write("model.safetensors", builder.add("norm.weight", SafetensorsDType::kF32, {4}).image());
  dir.write("config.json", "{\"a\": 1}");
  dir.write("tokenizer.json", "{\"b\": 2}");
  for (const std::string& path : {dir.path().string(), dir.file("model.safetensors")}) {
    const auto source = WeightSource::open(path);
    EXPECT_EQ(source->path(), path);
    EXPECT_EQ(source->config_json(), "{\"a\": 1}");
    EXPECT_EQ(source->tokenizer_json(), "{\"b\": 2}");
    EXPECT_EQ(source->tensors().size(), 1U);
  }
}

TEST(WeightSource, TellsFormatsByContent) {
  const TempDir dir;
  const std::string gguf = dir.file("model.bin");
  GgufWriter(gguf, {}, {}).finish();
  EXPECT_NE(WeightSource::open(gguf)->gguf(), nullptr);
  EXPECT_ERROR((void)WeightSource::open(dir.write("notes.txt", "hello")), ErrorCode::kUnsupported,
               "notes.txt: neither a GGUF file nor safetensors, expected one of them or a directory");
  EXPECT_ERROR((void)WeightSource::open(dir.write("bad.gguf", "hello")), ErrorCode::kBadModel, "not a GGUF file");
  EXPECT_ERROR((void)WeightSource::open(dir.file("absent")), ErrorCode::kIo, "absent: cannot open: No such file");
}

}  // namespace
}  // namespace fathom
