#include "cli/bench_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/numbers.h"

namespace fathom::cli {
namespace {

using Json = nlohmann::ordered_json;

std::optional<double> median_of(const Rates& rates) {
  return rates.empty() ? std::nullopt : std::optional(rates.median());
}

std::optional<double> best_of(const Rates& rates) { return rates.empty() ? std::nullopt : std::optional(rates.best()); }

// rate * per_token / limit, where there are both.
std::optional<double> share(const Rates& rates, double per_token, std::optional<double> limit) {
  if (rates.empty() || !limit) {
    return std::nullopt;
  }
  return rates.median() * per_token / *limit;
}

Json number(std::optional<double> value) { return value ? Json(*value) : Json(nullptr); }
Json scaled(std::optional<double> value, double unit) { return value ? Json(*value / unit) : Json(nullptr); }

Json describe_profile(const std::vector<OpProfile>& profile) {
  Json ops = Json::array();
  for (const OpProfile& p : profile) {
    ops.push_back({{"op", p.op},
                   {"calls", p.calls},
                   {"seconds", p.seconds},
                   {"weight_bytes", p.weight_bytes},
                   {"operations", p.operations}});
  }
  return ops;
}

std::string text(std::optional<double> value, double unit = 1.0) {
  return value ? fmt::format("{:.1f}", *value / unit) : "-";
}

std::string percent(std::optional<double> share) { return share ? fmt::format("{:.0f} %", 100.0 * *share) : "-"; }

std::string format_profile(const std::string& title, const std::vector<OpProfile>& profile) {
  double total = 0.0;
  for (const OpProfile& p : profile) {
    total += p.seconds;
  }
  std::string out = fmt::format("\n{}\n{:<28} {:>7} {:>10} {:>6} {:>10} {:>8} {:>9}\n", title, "op", "calls", "ms",
                                "share", "weights", "GB/s", "GOP/s");
  for (const OpProfile& p : profile) {
    const auto rate = [&](double amount) { return amount > 0.0 ? text(amount / p.seconds, 1e9) : "-"; };
    out += fmt::format("{:<28} {:>7} {:>10.2f} {:>6} {:>10} {:>8} {:>9}\n", p.op, p.calls, 1e3 * p.seconds,
                       percent(p.seconds / total),
                       p.weight_bytes > 0.0 ? format_bytes(static_cast<uint64_t>(p.weight_bytes)) : "-",
                       rate(p.weight_bytes), rate(p.operations));
  }
  return out;
}

}  // namespace

double Rates::median() const {
  std::vector<double> sorted = rates_;
  std::ranges::sort(sorted);
  return sorted[(sorted.size() - 1) / 2];
}

double Rates::best() const { return *std::ranges::max_element(rates_); }

std::string format_bench_json(const BenchReport& r) {
  Json runs = Json::array();
  for (const Prefill& prefill : r.prefills) {
    Json run{{"model", r.model},
             {"backend", r.backend},
             {"isa", r.isa.empty() ? Json(nullptr) : Json(r.isa)},
             {"threads", r.threads},
             {"layers", r.layers},
             {"prompt", prefill.prompt},
             {"gen", r.gen},
             {"depth", r.depth},
             {"seqs", r.seqs},
             {"prefill_tok_s", number(median_of(prefill.rates))},
             {"prefill_tok_s_best", number(best_of(prefill.rates))},
             {"decode_tok_s", number(median_of(r.decode))},
             {"decode_tok_s_best", number(best_of(r.decode))},
             {"parameters", r.parameters},
             {"weight_bytes", r.weight_bytes},
             {"bytes_per_token", r.bytes_per_token},
             {"operations_per_token", r.operations_per_token},
             {"read_gb_s", scaled(r.read_bytes_per_s, 1e9)},
             {"int8_tops", scaled(r.int8_operations_per_s, 1e12)},
             {"decode_floor_share", number(share(r.decode, r.bytes_per_token, r.read_bytes_per_s))},
             {"prefill_peak_share", number(share(prefill.rates, r.operations_per_token, r.int8_operations_per_s))},
             {"peak_rss_bytes", r.peak_rss_bytes}};
    if (!prefill.profile.empty()) {
      run["prefill_profile"] = describe_profile(prefill.profile);
    }
    if (!r.decode_profile.empty()) {
      run["decode_profile"] = describe_profile(r.decode_profile);
    }
    runs.push_back(std::move(run));
  }
  return runs.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string format_bench_table(const BenchReport& r) {
  std::string out = fmt::format(
      "{}: {} layers, {} parameters, {}; a token reads {} of weights and takes {:.2f} G operations\n"
      "{}{}, {} threads; peak memory {}\n",
      r.model, r.layers, format_count(r.parameters), format_bytes(r.weight_bytes),
      format_bytes(static_cast<uint64_t>(r.bytes_per_token)), r.operations_per_token / 1e9, r.backend,
      r.isa.empty() ? "" : " " + r.isa, r.threads, format_bytes(r.peak_rss_bytes));
  if (r.read_bytes_per_s) {
    out += fmt::format("measured with these threads: reading {} GB/s, int8 {:.2f} TOP/s\n",
                       text(r.read_bytes_per_s, 1e9), r.int8_operations_per_s.value_or(0.0) / 1e12);
  }
  constexpr const char* kRow = "{:<8} {:>7} {:>7} {:>5} {:>11} {:>11} {:>10}\n";
  out += "\n" + fmt::format(fmt::runtime(kRow), "", "tokens", "depth", "seqs", "tok/s", "best", "of limit");
  for (const Prefill& prefill : r.prefills) {
    if (!prefill.rates.empty()) {
      out += fmt::format(fmt::runtime(kRow), "prefill", prefill.prompt, r.depth, 1, text(median_of(prefill.rates)),
                         text(best_of(prefill.rates)),
                         percent(share(prefill.rates, r.operations_per_token, r.int8_operations_per_s)));
    }
  }
  if (!r.decode.empty()) {
    out += fmt::format(fmt::runtime(kRow), "decode", r.gen, r.depth, r.seqs, text(median_of(r.decode)),
                       text(best_of(r.decode)), percent(share(r.decode, r.bytes_per_token, r.read_bytes_per_s)));
  }
  for (const Prefill& prefill : r.prefills) {
    if (!prefill.profile.empty()) {
      out += format_profile(fmt::format("prefill of {}", prefill.prompt), prefill.profile);
    }
  }
  if (!r.decode_profile.empty()) {
    out += format_profile("decode", r.decode_profile);
  }
  return out;
}

}  // namespace fathom::cli
