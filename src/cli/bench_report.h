// The numbers of fathom bench, as a table and as JSON.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "backend/profiling_ops.h"

namespace fathom::cli {

// Tokens per second of repeated runs.
class Rates {
 public:
  void add(double rate) { rates_.push_back(rate); }
  [[nodiscard]] bool empty() const { return rates_.empty(); }
  // Precondition of both: not empty. The median of an even number of runs is the slower of the two in the middle.
  [[nodiscard]] double median() const;
  [[nodiscard]] double best() const;

 private:
  std::vector<double> rates_;
};

struct Prefill {
  int prompt = 0;
  Rates rates;
  std::vector<OpProfile> profile;
};

struct BenchReport {
  std::string model;
  std::string backend;
  std::string isa;  // empty: the backend has none
  int threads = 0;
  int layers = 0;
  int depth = 0;
  int gen = 0;
  int seqs = 1;
  uint64_t parameters = 0;
  uint64_t weight_bytes = 0;
  uint64_t peak_rss_bytes = 0;
  double bytes_per_token = 0.0;
  double operations_per_token = 0.0;
  std::optional<double> read_bytes_per_s;  // unset: not measured on this backend
  std::optional<double> int8_operations_per_s;
  std::vector<Prefill> prefills;  // one without rates when only decoding was measured
  Rates decode;
  std::vector<OpProfile> decode_profile;
};

// Shares are in [0, 1]; what was not measured is null. Profiles are there when they were asked for.
[[nodiscard]] std::string format_bench_json(const BenchReport& report);
[[nodiscard]] std::string format_bench_table(const BenchReport& report);

}  // namespace fathom::cli
