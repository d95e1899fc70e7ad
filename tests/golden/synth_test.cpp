// Files with invented weights: they load, run on every host backend, and are what the options say.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "support/fathom_program.h"
#include "support/temp_dir.h"

namespace fathom::test {
namespace {

using testing::HasSubstr;
using Json = nlohmann::json;

void synth(std::vector<std::string> arguments, const std::string& out) {
  arguments.insert(arguments.begin(), "synth");
  arguments.insert(arguments.end(), {"-o", out});
  const ProcessResult result = fathom(arguments);
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr(out + ": "));
}

Json inspect(const std::string& model) { return Json::parse(fathom({"inspect", model, "--tensors", "--json"}).out); }

std::string type_of(const Json& report, const std::string& tensor) {
  for (const Json& t : report["tensor_list"]) {
    if (t["name"] == tensor) {
      return t["type"];
    }
  }
  return "missing";
}

// Longer than the window and than the blocks that layers compress.
std::string ids_text() {
  std::string text;
  for (int i = 0; i < 150; ++i) {
    text += std::to_string(i * i % 509) + " ";
  }
  return text;
}

class SynthOfTypes : public testing::TestWithParam<const char*> {};

TEST_P(SynthOfTypes, LogitsAreFiniteOnEveryHostBackend) {
  const TempDir dir;
  const std::string model = dir.file("tiny.gguf");
  synth({"tiny", "--experts", GetParam()}, model);
  const std::string ids = dir.write("ids.txt", ids_text());
  for (const char* backend : {"reference", "cpu"}) {
    SCOPED_TRACE(backend);
    const std::string out = dir.file("logits.npy");
    const ProcessResult result =
        fathom({"logits", "-m", model, "--tokens", ids, "--out", out, "--backend", backend, "--threads", "2"});
    ASSERT_EQ(result.exit_code, 0) << result.err;
    const NpyMatrix logits = read_npy(out);
    ASSERT_EQ(logits.rows, 150U);
    ASSERT_EQ(logits.cols, 512U);
    double squares = 0.0;
    for (const float v : logits.values) {
      ASSERT_TRUE(std::isfinite(v));
      squares += static_cast<double>(v) * v;
    }
    const double size = std::sqrt(squares / static_cast<double>(logits.values.size()));
    EXPECT_GT(size, 0.1);
    EXPECT_LT(size, 10.0);
  }
}

INSTANTIATE_TEST_SUITE_P(Types, SynthOfTypes, testing::Values("Q4_K", "Q8_0", "MXFP4", "IQ2_XXS/Q2_K", "BF16", "F32"));

TEST(Synth, ChoosesTypesByGroup) {
  const TempDir dir;
  const std::string model = dir.file("tiny.gguf");
  synth({"tiny", "--experts", "IQ2_XXS/Q2_K"}, model);
  Json report = inspect(model);
  EXPECT_EQ(type_of(report, "blk.0.ffn_gate_exps.weight"), "IQ2_XXS");
  EXPECT_EQ(type_of(report, "blk.0.ffn_up_exps.weight"), "IQ2_XXS");
  EXPECT_EQ(type_of(report, "blk.0.ffn_down_exps.weight"), "Q2_K");
  EXPECT_EQ(type_of(report, "blk.0.ffn_down_shexp.weight"), "Q8_0");
  EXPECT_EQ(type_of(report, "blk.0.attn_q_a.weight"), "Q8_0");
  EXPECT_EQ(type_of(report, "output.weight"), "Q8_0");
  EXPECT_EQ(type_of(report, "token_embd.weight"), "F16");
  EXPECT_EQ(type_of(report, "blk.2.attn_compressor_kv.weight"), "F16");
  EXPECT_EQ(type_of(report, "blk.0.ffn_gate_inp.weight"), "F32");
  EXPECT_EQ(report["metadata"]["general.file_type"], 19);

  synth({"tiny", "--rest", "F32", "--layers", "3"}, model);
  report = inspect(model);
  EXPECT_EQ(report["config"]["layers"], 3);
  EXPECT_EQ(type_of(report, "blk.0.ffn_down_exps.weight"), "Q4_K");
  EXPECT_EQ(type_of(report, "blk.0.attn_q_a.weight"), "F32");
  EXPECT_EQ(type_of(report, "blk.2.attn_compressor_kv.weight"), "F32");
  EXPECT_EQ(type_of(report, "token_embd.weight"), "F32");
  EXPECT_EQ(type_of(report, "blk.3.attn_q_a.weight"), "missing");
}

TEST(Synth, FallsBackWhereRowsAreNoMultipleOfABlock) {
  const TempDir dir;
  const std::string model = dir.file("tiny.gguf");
  const ProcessResult result = fathom({"synth", "tiny", "--rest", "Q4_K", "-o", model});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("no multiple of a block: they are BF16"));
  const Json report = inspect(model);
  EXPECT_EQ(type_of(report, "blk.0.attn_q_a.weight"), "Q4_K");
  EXPECT_EQ(type_of(report, "blk.0.attn_q_b.weight"), "BF16");
}

TEST(Synth, WritesTheSameFileEveryTime) {
  const TempDir dir;
  synth({"tiny"}, dir.file("a.gguf"));
  synth({"tiny"}, dir.file("b.gguf"));
  EXPECT_EQ(read_file_bytes(dir.file("a.gguf")), read_file_bytes(dir.file("b.gguf")));
}

TEST(Synth, TokenizesAnyText) {
  const TempDir dir;
  const std::string model = dir.file("tiny.gguf");
  synth({"tiny"}, model);
  const std::string text = "any \xC3\xA9 text\n\x01";
  const ProcessResult ids = fathom({"tokenize", "-m", model, "--ids"}, text);
  ASSERT_EQ(ids.exit_code, 0) << ids.err;
  EXPECT_EQ(fathom({"detokenize", "-m", model}, ids.out).out, text);
  EXPECT_EQ(fathom({"run", "-m", model, "hello", "-n", "3", "--temp", "0"}).exit_code, 0);
}

TEST(Synth, RefusesWhatItCannotMake) {
  const TempDir dir;
  const std::string out = dir.file("x.gguf");
  const auto expect_failure = [&](int exit_code, const std::string& text, std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "synth");
    const ProcessResult result = fathom(arguments);
    EXPECT_EQ(result.exit_code, exit_code) << text;
    EXPECT_THAT(result.err, HasSubstr(text));
    EXPECT_FALSE(std::filesystem::exists(out));
  };
  expect_failure(2, "--out is required", {"tiny"});
  expect_failure(2, "SPEC is required", {"-o", out});
  expect_failure(2, "'Q9' is no type of weights", {"tiny", "-o", out, "--experts", "Q9"});
  expect_failure(2, "--experts Q4_K/: '' is no type of weights", {"tiny", "-o", out, "--experts", "Q4_K/"});
  expect_failure(2, "'I32' is no type of weights", {"tiny", "-o", out, "--experts", "I32"});
  expect_failure(2, "--rest", {"tiny", "-o", out, "--rest", "Q9"});
  expect_failure(2, "--layers", {"tiny", "-o", out, "--layers", "0"});
  expect_failure(1, "5 layers of synthetic-tiny, expected 1 to 4", {"tiny", "-o", out, "--layers", "5"});
  expect_failure(2, "huge", {"huge", "-o", out});
}

}  // namespace
}  // namespace fathom::test
