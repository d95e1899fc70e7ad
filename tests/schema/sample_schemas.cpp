// One reply of the bundled model per JSON schema, held to it by constrained decoding:
//   sample_schemas MODEL [--temperature T] [--max-tokens N] [--seed S] < schemas.jsonl > replies.jsonl
// A reply is {"text", "ended"}: whether it ended by itself, not by the limit.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <deque>
#include <exception>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "chat/prompt.h"
#include "core/utf8.h"
#include "engine/engine.h"
#include "grammar/grammar_compiler.h"
#include "weights/weight_source.h"

namespace fathom {
namespace {

struct Options {
  std::string model;  // the bundled one
  float temperature = 1.5F;
  int max_tokens = 512;
  uint64_t seed = 1;
};

struct Reply {
  std::vector<TokenId> tokens;
  FinishEvent finish;
};

std::vector<TokenId> prompt_for(const std::string& schema, const Tokenizer& tokenizer) {
  ChatMessage system{.role = Role::kSystem, .response_schema = schema};
  const RenderedPrompt prompt = render_chat({system, {.role = Role::kUser, .content = "Give me an example."}}, {});
  return tokenizer.encode(prompt.text, {.added_tokens = AddedTokenPolicy::kTrusted, .trusted = prompt.trusted});
}

std::vector<std::string> read_lines() {
  std::vector<std::string> lines;
  for (std::string line; std::getline(std::cin, line);) {
    lines.push_back(line);
  }
  return lines;
}

void sample(const Options& options) {
  const std::vector<std::string> schemas = read_lines();
  EngineConfig config;
  config.runner.model_path = options.model;
  config.runner.max_context = 4096;
  config.runner.max_sequences = 16;
  config.max_queue = static_cast<int>(schemas.size());
  std::unique_ptr<ModelRunner> runner = ModelRunner::open(config.runner);
  const Tokenizer tokenizer = Tokenizer::from_gguf(*runner->source().gguf());
  const ChatTokens chat = tokenizer.require_chat_tokens();
  GrammarCompiler compiler(tokenizer);
  const std::unique_ptr<Engine> engine = Engine::start(std::move(runner), config);

  std::deque<Reply> replies(schemas.size());
  std::vector<RequestHandle> handles;
  for (size_t i = 0; i < schemas.size(); ++i) {
    GenerationRequest request;
    request.prompt = prompt_for(schemas[i], tokenizer);
    request.sampling.temperature = options.temperature;
    request.sampling.seed = options.seed + i;
    request.max_tokens = options.max_tokens;
    request.stop_tokens = {chat.eos};
    request.constraint = constrain_reply(compiler.json_schema(schemas[i]), chat, false);
    Reply& reply = replies[i];
    auto handle =
        engine->submit(std::move(request), {.on_prompt = {},
                                            .on_token =
                                                [&reply](const TokenEvent& event) {
                                                  reply.tokens.push_back(event.token);
                                                  return true;
                                                },
                                            .on_finish = [&reply](const FinishEvent& e) { reply.finish = e; }});
    handles.push_back(std::move(handle).value());
  }
  for (size_t i = 0; i < handles.size(); ++i) {
    handles[i].wait();
    if (replies[i].finish.error) {
      throw Error(*replies[i].finish.error);
    }
    const nlohmann::json line = {{"text", replace_invalid_utf8(tokenizer.decode(replies[i].tokens))},
                                 {"tokens", replies[i].tokens.size()},
                                 {"ended", replies[i].finish.reason == FinishReason::kStop}};
    fmt::print("{}\n", line.dump());
  }
}

}  // namespace
}  // namespace fathom

int main(int argc, char** argv) {
  fathom::Options options;
  CLI::App app("One constrained reply of the bundled model per JSON schema");
  app.add_option("model", options.model)->required();
  app.add_option("--temperature", options.temperature);
  app.add_option("--max-tokens", options.max_tokens);
  app.add_option("--seed", options.seed);
  CLI11_PARSE(app, argc, argv);
  try {
    fathom::sample(options);
  } catch (const std::exception& error) {
    fmt::print(stderr, "sample_schemas: {}\n", error.what());
    return 1;
  }
  return 0;
}
