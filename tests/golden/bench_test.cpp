// fathom bench: what it prints for a model that takes milliseconds.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "support/fathom_program.h"
#include "support/temp_dir.h"

namespace fathom::test {
namespace {

using testing::HasSubstr;
using Json = nlohmann::json;

ProcessResult bench(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "bench");
  return fathom(arguments);
}

Json bench_json(std::vector<std::string> arguments) {
  arguments.emplace_back("--json");
  const ProcessResult result = bench(std::move(arguments));
  EXPECT_EQ(result.exit_code, 0) << result.err;
  return Json::parse(result.out);
}

TEST(Bench, JsonHasTheKeysOfTheContract) {
  const Json runs = bench_json({"--synthetic", "tiny", "--prompt", "8,150", "--gen", "3", "--depth", "130", "--seqs",
                                "2", "--threads", "2", "--repeat", "2", "--backend", "cpu"});
  ASSERT_EQ(runs.size(), 2U);
  for (const Json& run : runs) {
    EXPECT_EQ(run["backend"], "cpu");
    EXPECT_EQ(run["threads"], 2);
    EXPECT_EQ(run["gen"], 3);
    EXPECT_EQ(run["depth"], 130);
    EXPECT_EQ(run["seqs"], 2);
    for (const char* key : {"prefill_tok_s", "decode_tok_s", "bytes_per_token", "read_gb_s", "decode_floor_share",
                            "prefill_peak_share", "peak_rss_bytes"}) {
      ASSERT_TRUE(run.contains(key)) << key;
      EXPECT_GT(run[key].get<double>(), 0.0) << key;
    }
    EXPECT_LT(run["decode_floor_share"].get<double>(), 20.0) << "the model fits into a cache";
    EXPECT_LT(run["prefill_peak_share"].get<double>(), 1.0);
  }
  EXPECT_EQ(runs[0]["prompt"], 8);
  EXPECT_EQ(runs[1]["prompt"], 150);
}

TEST(Bench, MeasuresAFileAsItsShape) {
  const TempDir dir;
  const std::string model = dir.file("tiny.gguf");
  ASSERT_EQ(fathom({"synth", "tiny", "--experts", "Q8_0", "-o", model}).exit_code, 0);
  const std::vector<std::string> sizes = {"--prompt", "4", "--gen", "1", "--repeat", "1", "--backend", "reference"};
  const auto with = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), sizes.begin(), sizes.end());
    return bench_json(arguments)[0];
  };
  const Json file = with({"-m", model});
  const Json shape = with({"--synthetic", "tiny", "--experts", "Q8_0"});
  for (const char* key : {"model", "layers", "parameters", "weight_bytes", "bytes_per_token", "operations_per_token"}) {
    EXPECT_EQ(file[key], shape[key]) << key;
  }
  EXPECT_TRUE(file["isa"].is_null());
  EXPECT_EQ(with({"--synthetic", "tiny", "--layers", "2"})["layers"], 2);
}

TEST(Bench, ForcedIsaIsTheOneThatRuns) {
  const ProcessResult result = bench({"--synthetic", "tiny", "--prompt", "4", "--gen", "0", "--repeat", "1",
                                      "--backend", "cpu", "--isa", "avx2", "--json"});
  if (result.exit_code != 0) {
    ASSERT_THAT(result.err, HasSubstr("isa avx2: this CPU does not have it"));
    GTEST_SKIP() << result.err;
  }
  const Json run = Json::parse(result.out)[0];
  EXPECT_EQ(run["isa"], "avx2");
  EXPECT_TRUE(run["decode_tok_s"].is_null());
}

TEST(Bench, TableAndProfile) {
  const ProcessResult result =
      bench({"--synthetic", "tiny", "--prompt", "0", "--gen", "2", "--repeat", "1", "--profile"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("synthetic-tiny: 4 layers"));
  EXPECT_THAT(result.out, testing::ContainsRegex("decode +2 +0 +1 "));
  EXPECT_THAT(result.out, testing::ContainsRegex("matmul attn_q_a +16 "));
  EXPECT_THAT(result.out, testing::Not(HasSubstr("prefill")));
}

TEST(Bench, RefusesWhatMakesNoSense) {
  const auto expect_failure = [](int exit_code, const std::string& text, std::vector<std::string> arguments) {
    const ProcessResult result = bench(std::move(arguments));
    EXPECT_EQ(result.exit_code, exit_code) << text;
    EXPECT_EQ(result.out, "");
    EXPECT_THAT(result.err, HasSubstr(text));
  };
  expect_failure(2, "--model excludes --synthetic", {"--synthetic", "tiny", "-m", "x"});
  expect_failure(2, "--experts requires --synthetic", {"-m", "x", "--experts", "Q8_0"});
  expect_failure(2, "--layers requires --synthetic", {"--layers", "2"});
  expect_failure(2, "'Q9' is no type of weights", {"--synthetic", "tiny", "--experts", "Q9"});
  expect_failure(2, "--prompt", {"--synthetic", "tiny", "--prompt", "5,-1"});
  expect_failure(2, "--prompt", {"--synthetic", "tiny", "--prompt", "many"});
  expect_failure(2, "--seqs", {"--synthetic", "tiny", "--seqs", "0"});
  expect_failure(2, "--repeat", {"--synthetic", "tiny", "--repeat", "0"});
  expect_failure(2, "--isa", {"--synthetic", "tiny", "--isa", "sse2"});
  expect_failure(2, "huge", {"--synthetic", "huge"});
  expect_failure(1, "5 layers of synthetic-tiny", {"--synthetic", "tiny", "--layers", "5"});
  expect_failure(1, "4096", {"--synthetic", "tiny", "--depth", "4096"});
  expect_failure(1, "missing.gguf", {"-m", "missing.gguf"});
}

}  // namespace
}  // namespace fathom::test
