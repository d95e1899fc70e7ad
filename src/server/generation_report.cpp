#include "server/generation_report.h"

#include <fmt/format.h>

namespace fathom {
namespace {

using Clock = GenerationTimes::Clock;

double seconds(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

double rate(int tokens, double time) { return time > 0.0 ? tokens / time : 0.0; }

}  // namespace

std::string report_line(const ChatUsage& usage, const GenerationTimes& times, std::string_view finish) {
  std::string line = fmt::format(" cache={} prompt={} cached={} new={} reasoning={} finish={}",
                                 usage.cached_tokens > 0 ? "hit" : "miss", usage.prompt_tokens, usage.cached_tokens,
                                 usage.completion_tokens, usage.reasoning_tokens, finish);
  if (times.first_token) {
    const double first_token = seconds(times.submitted, *times.first_token);
    const double queue = times.queue_seconds.value_or(0.0);
    line += fmt::format(" queue_ms={:.1f} ttft_ms={:.1f} prefill_tok_s={:.1f} decode_tok_s={:.1f}", 1e3 * queue,
                        1e3 * first_token, rate(usage.prompt_tokens - usage.cached_tokens, first_token - queue),
                        rate(usage.completion_tokens - 1, seconds(*times.first_token, *times.last_token)));
  }
  return line;
}

void report_metrics(Metrics& metrics, const ChatUsage& usage, const GenerationTimes& times) {
  Histogram first_token(first_token_bounds());
  if (times.first_token) {
    first_token.observe(seconds(times.submitted, *times.first_token));
  }
  metrics.count_generation({.prompt_tokens = static_cast<uint64_t>(usage.prompt_tokens),
                            .cached_tokens = static_cast<uint64_t>(usage.cached_tokens),
                            .completion_tokens = static_cast<uint64_t>(usage.completion_tokens)},
                           first_token, times.token_gaps);
}

}  // namespace fathom
