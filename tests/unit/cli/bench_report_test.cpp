#include "cli/bench_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace fathom::cli {
namespace {

using testing::HasSubstr;
using testing::Not;
using Json = nlohmann::json;

Rates rates(std::initializer_list<double> values) {
  Rates r;
  for (const double value : values) {
    r.add(value);
  }
  return r;
}

BenchReport example() {
  BenchReport r;
  r.model = "m";
  r.backend = "cpu";
  r.isa = "amx";
  r.threads = 2;
  r.layers = 4;
  r.gen = 8;
  r.bytes_per_token = 2e9;
  r.operations_per_token = 1e9;
  r.read_bytes_per_s = 40e9;
  r.int8_operations_per_s = 8e12;
  r.prefills.push_back({.prompt = 16, .rates = rates({800.0, 700.0, 1000.0}), .profile = {}});
  r.prefills.push_back({.prompt = 32, .rates = rates({1600.0}), .profile = {}});
  r.decode = rates({10.0, 5.0});
  return r;
}

TEST(Rates, MedianAndBest) {
  EXPECT_EQ(rates({3.0, 1.0, 2.0}).median(), 2.0);
  EXPECT_EQ(rates({4.0, 1.0, 2.0, 3.0}).median(), 2.0);
  EXPECT_EQ(rates({3.0, 1.0, 2.0}).best(), 3.0);
}

TEST(BenchReport, JsonHasOneObjectPerPrompt) {
  const Json json = Json::parse(format_bench_json(example()));
  ASSERT_EQ(json.size(), 2U);
  EXPECT_EQ(json[0]["prompt"], 16);
  EXPECT_EQ(json[0]["prefill_tok_s"], 800.0);
  EXPECT_EQ(json[0]["prefill_tok_s_best"], 1000.0);
  EXPECT_EQ(json[0]["prefill_peak_share"], 0.1);
  EXPECT_EQ(json[1]["prefill_peak_share"], 0.2);
  EXPECT_EQ(json[1]["decode_tok_s"], 5.0);
  EXPECT_EQ(json[1]["decode_tok_s_best"], 10.0);
  EXPECT_EQ(json[1]["decode_floor_share"], 0.25);
  EXPECT_EQ(json[0]["read_gb_s"], 40.0);
  EXPECT_FALSE(json[0].contains("decode_profile"));
}

TEST(BenchReport, WhatWasNotMeasuredIsNull) {
  BenchReport report = example();
  report.isa.clear();
  report.read_bytes_per_s.reset();
  report.int8_operations_per_s.reset();
  report.decode = {};
  const Json json = Json::parse(format_bench_json(report));
  for (const char* key : {"isa", "decode_tok_s", "decode_floor_share", "read_gb_s", "prefill_peak_share"}) {
    ASSERT_TRUE(json[0].contains(key)) << key;
    EXPECT_TRUE(json[0][key].is_null()) << key;
  }
  const std::string table = format_bench_table(report);
  EXPECT_THAT(table, HasSubstr("prefill"));
  EXPECT_THAT(table, Not(HasSubstr("decode")));
  EXPECT_THAT(table, Not(HasSubstr("GB/s")));
}

TEST(BenchReport, TableShowsSharesAndProfiles) {
  BenchReport report = example();
  report.decode_profile = {{.op = "matmul x", .calls = 3, .seconds = 0.003, .weight_bytes = 6e6, .operations = 12e6},
                           {.op = "attend", .calls = 3, .seconds = 0.001}};
  const std::string table = format_bench_table(report);
  EXPECT_THAT(table, HasSubstr("25 %"));
  EXPECT_THAT(table, testing::ContainsRegex("matmul x +3 +3.00 +75 % +5.7 MiB +2.0 +4.0"));
  EXPECT_THAT(table, testing::ContainsRegex("attend +3 +1.00 +25 % +- +- +-"));
  const Json json = Json::parse(format_bench_json(report));
  EXPECT_EQ(json[0]["decode_profile"][0]["op"], "matmul x");
}

}  // namespace
}  // namespace fathom::cli
