// What a server serves: one model, and how it is talked with.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "chat/dialect.h"
#include "engine/engine.h"
#include "grammar/grammar_compiler.h"
#include "sampling/sampling_params.h"
#include "server/replay_store.h"
#include "tokenizer/tokenizer.h"

namespace fathom {

// What a request that says nothing gets.
struct RequestDefaults {
  Thinking thinking = Thinking::kHigh;
  SamplingParams sampling;
  std::optional<int> max_tokens;  // unset: to the end of the context
};

// Outlives every request.
struct ServedModel {
  Engine& engine;
  const Tokenizer& tokenizer;
  std::string id;       // what the API calls it
  int64_t created = 0;  // seconds since 1970, of the model file
  ChatDialect dialect = ChatDialect::kOfficial;
  bool strict_official_tokens = false;
  RequestDefaults defaults = {};
  std::optional<std::chrono::seconds> request_timeout = {};
  // Kept between requests.
  std::shared_ptr<GrammarCompiler> grammars = std::make_shared<GrammarCompiler>(tokenizer);
  std::shared_ptr<ReplayStore> replays = std::make_shared<ReplayStore>();
};

}  // namespace fathom
