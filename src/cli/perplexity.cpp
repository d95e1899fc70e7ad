#include "cli/perplexity.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "cli/exit_code.h"
#include "cli/progress.h"
#include "cli/saved_logits.h"
#include "cli/text_io.h"
#include "cli/text_model.h"
#include "core/error.h"
#include "core/utf8.h"
#include "sampling/softmax.h"

namespace fathom::cli {
namespace {

// Mean and standard error of a sample, from running sums.
class Mean {
 public:
  void add(double value) {
    ++n_;
    sum_ += value;
    sum_of_squares_ += value * value;
  }
  [[nodiscard]] double mean() const { return sum_ / n_; }
  [[nodiscard]] double standard_error() const {
    const double variance = std::max(0.0, sum_of_squares_ / n_ - mean() * mean());
    return n_ > 1 ? std::sqrt(variance / (n_ - 1)) : 0.0;
  }

 private:
  double n_ = 0;
  double sum_ = 0;
  double sum_of_squares_ = 0;
};

// How one model's predictions differ from the saved ones.
struct Divergence {
  std::vector<double> kl;  // per token, nats
  size_t same_top = 0;

  [[nodiscard]] double quantile(double q) {
    const auto at = kl.begin() + static_cast<std::ptrdiff_t>(q * static_cast<double>(kl.size() - 1));
    std::nth_element(kl.begin(), at, kl.end());
    return *at;
  }
};

struct Distribution {
  std::span<const float> logits;
  float max;
  double log_sum;

  explicit Distribution(std::span<const float> row) : logits(row), max(max_of(row)), log_sum(log_sum_exp(row, max)) {}
  [[nodiscard]] double logprob(size_t i) const { return static_cast<double>(logits[i]) - max - log_sum; }
  [[nodiscard]] size_t best() const {
    return static_cast<size_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
  }
};

double kl_divergence(const Distribution& from, const Distribution& to) {
  double sum = 0.0;
  for (size_t i = 0; i < from.logits.size(); ++i) {
    const double logprob = from.logprob(i);
    sum += std::exp(logprob) * (logprob - to.logprob(i));
  }
  return sum;
}

class Evaluation {
 public:
  Evaluation(const PerplexityOptions& options, std::span<const TokenId> tokens, int vocab)
      : tokens_(tokens), saved_row_(static_cast<size_t>(vocab)) {
    if (!options.against.empty()) {
      against_.emplace(options.against, options.context, tokens, vocab);
    }
    if (!options.save_logits.empty()) {
      save_.emplace(options.save_logits, options.context, tokens, vocab);
    }
  }

  // The logits that predict the next token.
  void add(std::span<const float> row) {
    expect_finite(row);
    const Distribution here(row);
    nll_.add(-here.logprob(static_cast<size_t>(tokens_[next_])));
    if (save_) {
      save_->append(row);
    }
    if (against_) {
      against_->read_row(next_, saved_row_);
      expect_finite(saved_row_);
      const Distribution saved(saved_row_);
      divergence_.kl.push_back(kl_divergence(saved, here));
      divergence_.same_top += saved.best() == here.best() ? 1 : 0;
    }
    ++next_;
  }

  void finish() {
    if (save_) {
      save_->commit();
    }
  }

  [[nodiscard]] nlohmann::ordered_json summary() {
    nlohmann::ordered_json json{{"tokens", next_},
                                {"nll", nll_.mean()},
                                {"nll_stderr", nll_.standard_error()},
                                {"perplexity", std::exp(nll_.mean())}};
    if (against_) {
      Mean kl;
      for (const double value : divergence_.kl) {
        kl.add(value);
      }
      json["kl_mean"] = kl.mean();
      json["kl_stderr"] = kl.standard_error();
      json["kl_median"] = divergence_.quantile(0.5);
      json["kl_p99"] = divergence_.quantile(0.99);
      json["kl_max"] = divergence_.quantile(1.0);
      json["same_top"] = static_cast<double>(divergence_.same_top) / static_cast<double>(next_);
    }
    return json;
  }

 private:
  std::span<const TokenId> tokens_;
  size_t next_ = 0;
  Mean nll_;
  std::optional<SavedLogitsWriter> save_;
  std::optional<SavedLogits> against_;
  std::vector<float> saved_row_;
  Divergence divergence_;
};

std::vector<TokenId> read_tokens(const PerplexityOptions& options, const Tokenizer& tokenizer) {
  std::vector<TokenId> tokens = tokenizer.encode(replace_invalid_utf8(read_text(options.text_file)),
                                                 {.added_tokens = AddedTokenPolicy::kNowhere});
  if (tokens.empty()) {
    throw Error(ErrorCode::kBadRequest, fmt::format("{}: no text", text_name(options.text_file)));
  }
  return tokens;
}

std::string describe(const nlohmann::ordered_json& summary) {
  std::string text = fmt::format("perplexity {:.4f} ({:.5f} +- {:.5f} nats per token, {} tokens)\n",
                                 summary["perplexity"].get<double>(), summary["nll"].get<double>(),
                                 summary["nll_stderr"].get<double>(), summary["tokens"].get<size_t>());
  if (summary.contains("kl_mean")) {
    text += fmt::format("KL {:.3e} +- {:.1e} nats (median {:.3e}, 99 % {:.3e}, max {:.3e}); same top token {:.2f} %\n",
                        summary["kl_mean"].get<double>(), summary["kl_stderr"].get<double>(),
                        summary["kl_median"].get<double>(), summary["kl_p99"].get<double>(),
                        summary["kl_max"].get<double>(), 100.0 * summary["same_top"].get<double>());
  }
  return text;
}

}  // namespace

int perplexity(const PerplexityOptions& options) {
  RunnerConfig config = runner_config(options.model);
  config.backend.max_rows = std::min(options.context, config.backend.max_rows);
  const std::unique_ptr<ModelRunner> runner = ModelRunner::open(config);
  const Tokenizer tokenizer = load_tokenizer(runner->source());
  const std::vector<TokenId> tokens = read_tokens(options, tokenizer);
  if (!tokenizer.bos()) {
    throw Error(ErrorCode::kBadModel, "the tokenizer has no token that begins a document, which every window needs");
  }

  Evaluation evaluation(options, tokens, runner->vocab());
  {
    Progress progress("perplexity", tokens.size());
    const std::span<const TokenId> all(tokens);
    // Every window is a document of its own: its first token is predicted from the beginning mark alone.
    const auto window = static_cast<size_t>(options.context);
    std::vector<TokenId> input;
    for (size_t begin = 0; begin < all.size(); begin += window) {
      const std::span<const TokenId> predicted = all.subspan(begin, std::min(window, all.size() - begin));
      input.assign(1, *tokenizer.bos());
      input.insert(input.end(), predicted.begin(), predicted.end() - 1);
      SequenceCache sequence = runner->make_sequence();
      runner->feed(sequence, input, runner->max_rows(), [&](int position, HostMat<const float> rows) {
        for (int r = 0; r < rows.rows(); ++r) {
          evaluation.add(rows.row(r));
        }
        progress.set(begin + static_cast<size_t>(position + rows.rows()));
      });
    }
  }
  evaluation.finish();
  const nlohmann::ordered_json summary = evaluation.summary();
  write_stdout(options.json ? summary.dump(2) + "\n" : describe(summary));
  return kExitOk;
}

}  // namespace fathom::cli
