// What /metrics shows: counters and histograms in Prometheus' text format.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/engine.h"

namespace fathom {

// Not synchronised.
class Histogram {
 public:
  // `bounds` ascend; a value counts in the first bucket whose bound is not below it.
  explicit Histogram(std::span<const double> bounds) : bounds_(bounds), counts_(bounds.size() + 1) {}

  void observe(double value);
  void add(const Histogram& other);  // with the same bounds
  [[nodiscard]] uint64_t count() const;
  void write(std::string& out, std::string_view name, std::string_view help) const;

 private:
  std::span<const double> bounds_;
  std::vector<uint64_t> counts_;
  double sum_ = 0.0;
};

// Seconds.
[[nodiscard]] std::span<const double> first_token_bounds();
[[nodiscard]] std::span<const double> token_gap_bounds();

// What one generation adds.
struct GenerationCounts {
  uint64_t prompt_tokens = 0;
  uint64_t cached_tokens = 0;
  uint64_t completion_tokens = 0;
};

// From any thread.
class Metrics {
 public:
  void count_response(std::string_view route, int status);
  void count_error(std::string_view kind);
  void count_generation(const GenerationCounts& counts, const Histogram& first_token, const Histogram& token_gaps);

  [[nodiscard]] std::string text(const EngineStats& engine, int connections) const;

 private:
  mutable std::mutex mutex_;
  std::map<std::string, uint64_t> responses_;  // by labels
  std::map<std::string, uint64_t> errors_;
  GenerationCounts tokens_;
  uint64_t cache_hits_ = 0;
  uint64_t generations_ = 0;
  Histogram first_token_{first_token_bounds()};
  Histogram token_gaps_{token_gap_bounds()};
};

}  // namespace fathom
