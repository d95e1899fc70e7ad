// `fathom convert`, black box: what the written file computes and holds.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "quant/recipe.h"
#include "support/expect_error.h"
#include "support/fathom_program.h"
#include "support/official_checkpoint.h"
#include "support/oracle.h"
#include "support/temp_dir.h"
#include "weights/dequantize.h"
#include "weights/weight_source.h"

namespace fathom::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

const std::string kMini = FATHOM_TEST_DATA_DIR "/oracle/mini";

std::vector<float> values_of(const Weight& weight) {
  std::vector<float> values;
  std::vector<float> row(static_cast<size_t>(weight.in_dim));
  for (int slice = 0; slice < weight.count(); ++slice) {
    for (int r = 0; r < weight.out_dim; ++r) {
      dequantize_row(weight, slice, r, row.data());
      values.insert(values.end(), row.begin(), row.end());
    }
  }
  return values;
}

class ConvertTest : public testing::Test {
 protected:
  ConvertTest() {
    std::string ids;
    for (int i = 0; i < 150; ++i) {
      ids += std::to_string((5 + 11 * i) % 256) + " ";
    }
    ids_ = dir_.write("ids.txt", ids);
  }

  std::string convert(const std::string& source, std::vector<std::string> options) {
    const std::string out = dir_.file("model" + std::to_string(++n_files_) + ".gguf");
    options.insert(options.begin(), {"convert", source, "-o", out});
    const ProcessResult result = fathom(options);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_THAT(result.out, HasSubstr(out));
    return out;
  }

  NpyMatrix logits(const std::string& model, std::vector<std::string> options = {}) {
    const std::string out = dir_.file("out.npy");
    options.insert(options.begin(), {"logits", "-m", model, "--tokens", ids_, "--out", out, "--backend", "reference"});
    const ProcessResult result = fathom(options);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return read_npy(out);
  }

  TempDir dir_;
  std::string ids_;
  int n_files_ = 0;
};

double rms_difference(const NpyMatrix& a, const NpyMatrix& b) {
  double sum = 0.0;
  for (size_t i = 0; i < a.values.size(); ++i) {
    const double d = static_cast<double>(a.values[i]) - b.values[i];
    sum += d * d;
  }
  return std::sqrt(sum / static_cast<double>(a.values.size()));
}

TEST_F(ConvertTest, LosslessTypesKeepEveryLogit) {
  const NpyMatrix source = logits(kMini);
  EXPECT_EQ(logits(convert(kMini, {"--type", "f32"})).values, source.values);
  EXPECT_EQ(logits(convert(kMini, {"--type", "BF16"})).values, source.values);
  EXPECT_EQ(logits(convert(kMini, {})).values, source.values);
}

TEST_F(ConvertTest, SpellingOfTheSourceDoesNotMatter) {
  const std::string hf = convert(kMini, {"--name", "mini"});
  const std::string official = convert(official_spelling(kMini).string(), {"--name", "mini"});
  EXPECT_EQ(read_file_bytes(hf), read_file_bytes(official));
}

TEST_F(ConvertTest, Q8IsClose) {
  // Rounding error of Q8_0 against the logits' own spread of about 2; routing may flip in single positions.
  const NpyMatrix source = logits(kMini, {"--activation-sim", "off"});
  const double rms = rms_difference(logits(convert(kMini, {"--type", "Q8_0"}), {"--activation-sim", "off"}), source);
  EXPECT_GT(rms, 0.0);
  EXPECT_LT(rms, 0.5);
}

TEST_F(ConvertTest, EachKindOfTensorGetsItsType) {
  const std::string path = convert(kMini, {"--type", "Q8_0", "--experts", "MXFP4", "--attn", "F16", "--shared", "BF16",
                                           "--compressor", "F32", "--embd", "F16", "--output", "BF16"});
  const std::unique_ptr<WeightSource> file = WeightSource::open(path);
  const auto type = [&](const std::string& name) {
    const Weight* w = file->find(name);
    return w == nullptr ? "absent" : dtype_info(w->dtype).name;
  };
  EXPECT_EQ(type("token_embd.weight"), "F16");
  EXPECT_EQ(type("output.weight"), "BF16");
  EXPECT_EQ(type("blk.1.attn_q_b.weight"), "F16");
  EXPECT_EQ(type("blk.1.attn_compressor_kv.weight"), "F32");
  EXPECT_EQ(type("blk.1.indexer.proj.weight"), "F32");
  EXPECT_EQ(type("blk.1.ffn_up_shexp.weight"), "BF16");
  EXPECT_EQ(type("blk.1.ffn_down_exps.weight"), "MXFP4");
  EXPECT_EQ(type("blk.0.ffn_gate_tid2eid.weight"), "I32");
  for (const char* precise :
       {"output_norm.weight", "output_hc_fn.weight", "blk.1.hc_attn_fn.weight", "blk.1.ffn_gate_inp.weight",
        "blk.1.attn_compressor_ape.weight", "blk.1.attn_sinks.weight", "blk.2.exp_probs_b.bias"}) {
    EXPECT_EQ(type(precise), "F32") << precise;
  }
}

class OfficialCheckpoint : public ConvertTest {
 protected:
  OfficialCheckpoint() : source_(dir_.file("official")) { make_official_checkpoint(official_spelling(kMini), source_); }

  std::string source_;
};

TEST_F(OfficialCheckpoint, HoldsTheFormatsItIsMeantTo) {
  const std::unique_ptr<WeightSource> source = WeightSource::open(source_);
  EXPECT_EQ(source->find("blk.0.ffn_up_exps.weight")->dtype, DType::kF4_E2M1);
  EXPECT_EQ(source->find("blk.0.attn_q_b.weight")->dtype, DType::kF8_E4M3);
}

TEST_F(OfficialCheckpoint, LosslessTypesKeepEveryLogit) {
  const NpyMatrix source = logits(source_);
  EXPECT_NE(source.values, logits(kMini).values) << "the checkpoint was to be quantised";
  EXPECT_EQ(logits(convert(source_, {"--type", "F32"})).values, source.values);
  EXPECT_EQ(logits(convert(source_, {"--type", "BF16", "--experts", "MXFP4"})).values, source.values);
}

TEST_F(OfficialCheckpoint, ExpertsBecomeMxfp4WithoutChangingAValue) {
  const std::unique_ptr<WeightSource> before = WeightSource::open(source_);
  const std::unique_ptr<WeightSource> after = WeightSource::open(convert(source_, {}));
  int compared = 0;
  for (const Weight& w : before->tensors()) {
    if (classify_tensor(w.name) == TensorClass::kExperts) {
      const Weight* converted = after->find(w.name);
      ASSERT_NE(converted, nullptr) << w.name;
      EXPECT_EQ(converted->dtype, DType::kMXFP4);
      EXPECT_EQ(values_of(*converted), values_of(w)) << w.name;
      ++compared;
    }
  }
  EXPECT_EQ(compared, 5 * 3);
  EXPECT_EQ(after->find("blk.0.attn_q_b.weight")->dtype, DType::kQ8_0);
}

TEST_F(ConvertTest, BundledModelIsItsSourceInQ8) {
  const fs::path source = shared_dir("model");
  if (source.empty()) {
    GTEST_SKIP() << "the source of the bundled model is absent from " FATHOM_SHARED_DIR;
  }
  const std::string path =
      convert(source.string(), {"--type", "Q8_0", "--name", "Fathom tiny", "--dialect", "official"});
  EXPECT_EQ(read_file_bytes(path), read_file_bytes(FATHOM_MODELS_DIR "/fathom-tiny.gguf"))
      << "models/README.md says how to make it";
}

TEST_F(ConvertTest, Bf16FileReproducesTheReferenceOfTheBundledModel) {
  const fs::path source = shared_dir("model");
  if (source.empty()) {
    GTEST_SKIP() << "reference logits are absent from " FATHOM_SHARED_DIR;
  }
  const std::string model = convert(source.string(), {"--type", "BF16"});
  const ReferenceTensors reference((source / "ref.safetensors").string());
  for (const int length : reference.lengths("tok")) {
    std::string ids;
    for (const int32_t id : reference.ints("tok." + std::to_string(length)).values) {
      ids += std::to_string(id) + " ";
    }
    ids_ = dir_.write("ids.txt", ids);
    const NpyMatrix got = logits(model, {"--activation-sim", "off"});
    const auto expected = reference.floats("logits_last." + std::to_string(length));
    double worst = 0.0;
    const size_t first = got.rows - static_cast<size_t>(expected.rows());
    for (size_t r = 0; r < static_cast<size_t>(expected.rows()); ++r) {
      for (size_t c = 0; c < got.cols; ++c) {
        const double difference = static_cast<double>(got.row(first + r)[c]) - expected.row(static_cast<int>(r))[c];
        worst = std::max(worst, std::abs(difference));
      }
    }
    EXPECT_LE(worst, 2e-4) << length << " tokens";
  }
}

TEST_F(ConvertTest, DoesNotReplaceItsSource) {
  const std::string copy = dir_.file("source");
  fs::copy(kMini, copy);
  for (const char* name : {"model.safetensors", "config.json"}) {
    const std::string out = (fs::path(copy) / name).string();
    const auto size = fs::file_size(out);
    const ProcessResult result = fathom({"convert", copy, "-o", out});
    EXPECT_EQ(result.exit_code, 1);
    EXPECT_THAT(result.err, HasSubstr(out + ": is a file of the source, expected another name"));
    EXPECT_EQ(fs::file_size(out), size);
  }
}

TEST_F(ConvertTest, LeavesNothingBehindWhenItFails) {
  const auto fails = [&](const std::string& source, const std::string& text) {
    const std::string out = dir_.file("never.gguf");
    const ProcessResult result = fathom({"convert", source, "-o", out});
    EXPECT_EQ(result.exit_code, 1);
    EXPECT_THAT(result.err, HasSubstr(text));
    EXPECT_FALSE(fs::exists(out));
  };
  const std::string copy = dir_.file("copy");
  fs::copy(kMini, copy);
  fs::remove(fs::path(copy) / "config.json");
  fails(copy, "config.json");
  fails(convert(kMini, {}), "is a GGUF file");
  fails(dir_.file("missing"), "missing");
  for (const auto& entry : fs::directory_iterator(dir_.path())) {
    EXPECT_THAT(entry.path().string(), testing::Not(HasSubstr("never")));
  }
}

}  // namespace
}  // namespace fathom::test
