#include "server/metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <numeric>

namespace fathom {
namespace {

constexpr std::array kFirstTokenBounds{0.01, 0.025, 0.05, 0.1,  0.25, 0.5,   1.0,
                                       2.5,  5.0,   10.0, 30.0, 60.0, 120.0, 300.0};
constexpr std::array kTokenGapBounds{0.001, 0.0025, 0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.25, 0.5, 1.0, 2.5};

template <class... Args>
void append(std::string& out, fmt::format_string<Args...> format, Args&&... args) {
  fmt::format_to(std::back_inserter(out), format, std::forward<Args>(args)...);
}

template <class T>
void write_value(std::string& out, std::string_view type, std::string_view name, std::string_view help, T value) {
  append(out, "# HELP {0} {1}\n# TYPE {0} {2}\n{0} {3}\n", name, help, type, value);
}

void write_labelled(std::string& out, std::string_view name, std::string_view help,
                    const std::map<std::string, uint64_t>& values) {
  append(out, "# HELP {0} {1}\n# TYPE {0} counter\n", name, help);
  for (const auto& [labels, value] : values) {
    append(out, "{}{{{}}} {}\n", name, labels, value);
  }
}

}  // namespace

void Histogram::observe(double value) {
  const auto bucket = std::lower_bound(bounds_.begin(), bounds_.end(), value);
  ++counts_[static_cast<size_t>(bucket - bounds_.begin())];
  sum_ += value;
}

void Histogram::add(const Histogram& other) {
  std::transform(counts_.begin(), counts_.end(), other.counts_.begin(), counts_.begin(), std::plus<>());
  sum_ += other.sum_;
}

uint64_t Histogram::count() const { return std::accumulate(counts_.begin(), counts_.end(), uint64_t{0}); }

void Histogram::write(std::string& out, std::string_view name, std::string_view help) const {
  append(out, "# HELP {0} {1}\n# TYPE {0} histogram\n", name, help);
  uint64_t total = 0;
  for (size_t i = 0; i < bounds_.size(); ++i) {
    total += counts_[i];
    append(out, "{}_bucket{{le=\"{}\"}} {}\n", name, bounds_[i], total);
  }
  total += counts_.back();
  append(out, "{0}_bucket{{le=\"+Inf\"}} {1}\n{0}_sum {2}\n{0}_count {1}\n", name, total, sum_);
}

std::span<const double> first_token_bounds() { return kFirstTokenBounds; }
std::span<const double> token_gap_bounds() { return kTokenGapBounds; }

void Metrics::count_response(std::string_view route, int status) {
  const std::lock_guard lock(mutex_);
  ++responses_[fmt::format("route=\"{}\",status=\"{}\"", route, status)];
}

void Metrics::count_error(std::string_view kind) {
  const std::lock_guard lock(mutex_);
  ++errors_[fmt::format("kind=\"{}\"", kind)];
}

void Metrics::count_generation(const GenerationCounts& counts, const Histogram& first_token,
                               const Histogram& token_gaps) {
  const std::lock_guard lock(mutex_);
  ++generations_;
  cache_hits_ += static_cast<uint64_t>(counts.cached_tokens > 0);
  tokens_.prompt_tokens += counts.prompt_tokens;
  tokens_.cached_tokens += counts.cached_tokens;
  tokens_.completion_tokens += counts.completion_tokens;
  first_token_.add(first_token);
  token_gaps_.add(token_gaps);
}

std::string Metrics::text(const EngineStats& engine, int connections) const {
  std::string out;
  const auto gauge = [&](std::string_view name, std::string_view help, auto value) {
    write_value(out, "gauge", name, help, value);
  };
  const auto counter = [&](std::string_view name, std::string_view help, auto value) {
    write_value(out, "counter", name, help, value);
  };
  gauge("fathom_requests_running", "Generations that take part in steps", engine.running);
  gauge("fathom_requests_waiting", "Generations in the queue", engine.waiting);
  gauge("fathom_connections", "Open HTTP connections", connections);
  gauge("fathom_cache_blocks_used", "Cache blocks in use", engine.cache_blocks_used);
  gauge("fathom_cache_blocks_total", "Cache blocks that may be in use", engine.cache_blocks_total);
  gauge("fathom_cache_bytes_used", "Bytes of the cache blocks in use", engine.cache_bytes_used);
  gauge("fathom_last_step_seconds", "Time of the last step", engine.last_step_seconds);
  counter("fathom_engine_requests_finished_total", "Generations that ended, in any way", engine.requests_finished);
  counter("fathom_engine_requests_failed_total", "Generations that ended with an error", engine.requests_failed);
  counter("fathom_engine_prompt_tokens_total", "Prompt tokens processed", engine.prompt_tokens);
  counter("fathom_engine_generated_tokens_total", "Tokens drawn", engine.generated_tokens);
  counter("fathom_preemptions_total", "Generations whose cache was given to older ones", engine.preemptions);
  counter("fathom_steps_total", "Steps of the model", engine.steps);
  counter("fathom_steps_failed_total", "Steps that failed", engine.steps_failed);
  counter("fathom_step_seconds_total", "Time of all steps", engine.step_seconds);

  const std::lock_guard lock(mutex_);
  counter("fathom_generations_total", "Requests that generated", generations_);
  counter("fathom_cache_hits_total", "Of those, the ones that found a part of their prompt in the cache", cache_hits_);
  counter("fathom_prompt_tokens_total", "Tokens of prompts, cached ones included", tokens_.prompt_tokens);
  counter("fathom_cached_tokens_total", "Tokens of prompts found in the cache", tokens_.cached_tokens);
  counter("fathom_completion_tokens_total", "Tokens of answers", tokens_.completion_tokens);
  first_token_.write(out, "fathom_time_to_first_token_seconds", "From the request to its first token");
  token_gaps_.write(out, "fathom_inter_token_seconds", "Between two tokens of an answer");
  write_labelled(out, "fathom_http_responses_total", "Responses by route and status", responses_);
  write_labelled(out, "fathom_errors_total", "Errors by kind, those within streams included", errors_);
  return out;
}

}  // namespace fathom
