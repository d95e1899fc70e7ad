#include "cli/logits.h"

#include <fmt/format.h>

#include <chrono>

#include "cli/exit_code.h"
#include "cli/npy.h"
#include "cli/progress.h"
#include "cli/text_io.h"
#include "cli/token_ids.h"
#include "core/error.h"

namespace fathom::cli {

int logits(const LogitsOptions& options) {
  const std::string text = read_text(options.tokens_file);
  RunnerConfig config = runner_config(options.model);
  config.backend.max_rows = options.chunk;
  const std::unique_ptr<ModelRunner> runner = ModelRunner::open(config);

  const std::vector<TokenId> tokens = parse_token_ids(text, runner->vocab(), text_name(options.tokens_file));
  if (tokens.empty()) {
    throw Error(ErrorCode::kBadRequest, fmt::format("{}: no token ids", text_name(options.tokens_file)));
  }
  if (static_cast<size_t>(options.steps) > tokens.size()) {
    throw Error(ErrorCode::kBadRequest, fmt::format("--steps {} is more than the {} tokens of {}", options.steps,
                                                    tokens.size(), text_name(options.tokens_file)));
  }

  NpyWriter out(options.out, tokens.size(), static_cast<uint64_t>(runner->vocab()));
  const auto begin = std::chrono::steady_clock::now();
  {
    Progress progress("logits", tokens.size());
    SequenceCache sequence = runner->make_sequence();
    const auto store = [&](int position, HostMat<const float> rows) {
      for (int r = 0; r < rows.rows(); ++r) {
        out.append(rows.row(r));
      }
      progress.set(static_cast<uint64_t>(position + rows.rows()));
    };
    const std::span<const TokenId> all(tokens);
    const size_t n_chunked = tokens.size() - static_cast<size_t>(options.steps);
    if (n_chunked > 0) {
      runner->feed(sequence, all.first(n_chunked), options.chunk, store);
    }
    if (options.steps > 0) {
      runner->feed(sequence, all.subspan(n_chunked), 1, store);
    }
  }
  out.commit();

  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  write_stdout(fmt::format("{}: float32 [{}, {}], {:.2f} s, {:.1f} tok/s\n", options.out, tokens.size(),
                           runner->vocab(), seconds.count(), static_cast<double>(tokens.size()) / seconds.count()));
  return kExitOk;
}

}  // namespace fathom::cli
