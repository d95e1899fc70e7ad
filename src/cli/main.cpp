// The fathom program: parses the command line and calls one command. The only file that includes CLI11, which takes ten
// seconds to compile.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <functional>
#include <iterator>
#include <limits>
#include <map>
#include <memory>
#include <new>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "cli/bench.h"
#include "cli/cache.h"
#include "cli/chat.h"
#include "cli/convert.h"
#include "cli/exit_code.h"
#include "cli/inspect.h"
#include "cli/logits.h"
#include "cli/perplexity.h"
#include "cli/process_guard.h"
#include "cli/render.h"
#include "cli/run.h"
#include "cli/serve.h"
#include "cli/synth.h"
#include "cli/text_io.h"
#include "cli/tokenize.h"
#include "core/error.h"
#include "model/shapes.h"

namespace fathom::cli {
namespace {

using Command = std::function<int()>;

const CLI::Validator kPositive = CLI::Range(1, std::numeric_limits<int>::max()).description("a positive number");
const CLI::Validator kNotNegative = CLI::Range(0, std::numeric_limits<int>::max()).description("a number >= 0");

// More than any model has positions, and little enough that products of two counts fit an int.
constexpr int kMaxBenchTokens = 1 << 20;
constexpr int kMaxBenchRows = 1 << 10;
const CLI::Validator kBenchTokens = CLI::Range(0, kMaxBenchTokens);
const CLI::Validator kBenchChunk = CLI::Range(1, kMaxBenchTokens);
const CLI::Validator kBenchRows = CLI::Range(1, kMaxBenchRows);

// Help in one style: what an option takes, then what it does and what it is without it. What excludes or needs what is
// told when it occurs.
class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_option_opts(const CLI::Option* option) const override {
    if (option->get_type_size() == 0) {
      return {};
    }
    // CLI11 writes "TYPE:CHECK"; the only checks that tell a user more than the type are lists of choices.
    std::string type = option->get_type_name();
    const size_t colon = type.find(':');
    if (colon != std::string::npos) {
      type = type.compare(colon, 2, ":{") == 0 ? type.substr(colon + 1) : type.substr(0, colon);
    }
    return fmt::format(" {}{}", type, option->get_required() ? " (required)" : "");
  }

  std::string make_option_desc(const CLI::Option* option) const override {
    const std::string initial = option->get_default_str();
    return option->get_description() + (initial.empty() ? "" : fmt::format(" (default: {})", initial));
  }
};

// The options that `add` adds stand under a heading of their own.
void under_heading(CLI::App& app, const std::string& heading, const std::function<void()>& add) {
  const std::vector<CLI::Option*> before = app.get_options();
  add();
  for (CLI::Option* option : app.get_options()) {
    if (std::ranges::count(before, option) == 0) {
      option->group(heading);
    }
  }
}

template <class T>
CLI::Option* add_choice(CLI::App& app, const std::string& name, T& value, const std::string& help,
                        const std::map<std::string, T>& choices) {
  return app
      .add_option_function<std::string>(
          name, [&value, choices](const std::string& chosen) { value = choices.at(chosen); }, help)
      ->check(CLI::IsMember(choices));
}

void add_model(CLI::App& app, std::string& model) {
  app.add_option("-m,--model", model,
                 "GGUF file (the first of a split) or safetensors directory (default: the bundled one)")
      ->type_name("PATH");
}

void add_json(CLI::App& app, bool& json) { app.add_flag("--json", json, "the result as JSON"); }

void add_cache_options(CLI::App& app, bool& activation_sim, std::optional<KvType>& kv_type) {
  add_choice<bool>(app, "--activation-sim", activation_sim, "round cached rows as in training (default: on)",
                   {{"on", true}, {"off", false}});
  add_choice<std::optional<KvType>>(app, "--kv-type", kv_type, "how cached rows are stored (default: auto)",
                                    {{"auto", std::nullopt}, {"f32", KvType::kF32}, {"packed", KvType::kPacked}});
}

void add_backend_options(CLI::App& app, ModelOptions& options) {
  add_choice<BackendKind>(app, "--backend", options.backend, "what computes (default: auto)",
                          {{"auto", BackendKind::kAuto},
                           {"reference", BackendKind::kReference},
                           {"cpu", BackendKind::kCpu},
                           {"cuda", BackendKind::kCuda}});
  app.add_option("--isa", options.isa, "instructions that the cpu backend uses (default: the best it can)")
      ->check(CLI::IsMember({"scalar", "avx2", "avx512", "amx"}));
  app.add_flag("!--no-repack", options.repack, "cpu: leave weights in the mapped file, for less memory and less speed");
  app.add_option("--threads", options.threads, "how many compute (default: as many as this process may use)")
      ->check(kPositive);
  app.add_option("--device", options.device, "cuda: which GPU (default: the first)")->check(kNotNegative);
  app.add_option("--gpu-memory", options.gpu_memory, "cuda: bytes it may take, as 80GiB (default: what is free)")
      ->transform(CLI::AsSizeValue(false))
      ->type_name("SIZE");
  add_cache_options(app, options.activation_sim, options.kv_type);
}

void add_model_options(CLI::App& app, ModelOptions& options) {
  under_heading(app, "Model and backend", [&] {
    add_model(app, options.model);
    add_backend_options(app, options);
  });
}

// Before a model is read, which may take minutes.
void check_sampling(const SamplingParams& params) {
  try {
    validate(params, 0);
  } catch (const Error& error) {
    throw UsageError(error.what());
  }
}

void add_prefix_options(CLI::App& app, PrefixOptions& options) {
  app.add_option("--cache-budget", options.cache_budget,
                 "memory for what conversations leave behind, as 8GiB; 0: none (default: 4GiB)")
      ->transform(CLI::AsSizeValue(false));
  app.add_option("--anchor-interval", options.anchor_interval,
                 "after an edit of a known text, compute at most so many tokens before it again")
      ->check(kNotNegative)
      ->capture_default_str();
  app.add_option("--kv-dir", options.kv_dir, "keep that in files too, and go on from it after a restart")
      ->type_name("DIR");
  app.add_option("--kv-budget", options.kv_budget, "bytes of these files, as 100GiB; 0: no bound (default)")
      ->transform(CLI::AsSizeValue(false));
}

void add_sampling_options(CLI::App& app, SamplingOptions& options) {
  SamplingParams& params = options.params;
  app.add_option("-n,--max-tokens", options.max_tokens, "at most so many tokens (default: until the model ends)")
      ->check(kNotNegative);
  app.add_option("--temp", params.temperature, "temperature; 0: always the likeliest token")->capture_default_str();
  app.add_option("--top-p", params.top_p, "only the likeliest tokens that together reach this")->capture_default_str();
  app.add_option("--top-k", params.top_k, "only the K likeliest tokens; 0: all")->capture_default_str();
  app.add_option("--min-p", params.min_p, "only tokens this likely, relative to the likeliest")->capture_default_str();
  app.add_option("--repetition-penalty", params.repetition_penalty, "above 1: fewer tokens seen before")
      ->capture_default_str();
  app.add_option("--presence-penalty", params.presence_penalty, "above 0: fewer tokens generated before")
      ->capture_default_str();
  app.add_option("--frequency-penalty", params.frequency_penalty, "the same, for each time they were generated")
      ->capture_default_str();
  app.add_option("--seed", params.seed, "draws the same tokens every time (default: a new one)");
  app.add_option("--stop", options.stops, "end before this text; may be given several times")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->type_name("TEXT");
}

void add_thinking(CLI::App& app, Thinking& thinking) {
  add_choice<Thinking>(
      app, "--think", thinking, "reason before the answer (default: off)",
      {{"off", Thinking::kOff}, {"low", Thinking::kLow}, {"high", Thinking::kHigh}, {"max", Thinking::kMax}});
}

void add_run(CLI::App& app, RunOptions& options, Command& command) {
  CLI::App* sub = app.add_subcommand("run", "Answer one prompt, or continue a text");
  CLI::Option* prompt = sub->add_option("-p,--prompt,PROMPT", options.prompt, "the prompt")->type_name("TEXT");
  sub->add_option("-f,--file", options.prompt_file, "read the prompt from a file; -: standard input")
      ->type_name("FILE")
      ->excludes(prompt);
  CLI::Option* system =
      sub->add_option("--system", options.system, "instructions before the prompt")->type_name("TEXT");
  CLI::Option* chat = sub->add_flag_callback(
      "--chat", [&] { options.mode = RunOptions::Mode::kChat; }, "the prompt is one turn of a chat (the default)");
  CLI::Option* raw = sub->add_flag_callback(
      "--raw", [&] { options.mode = RunOptions::Mode::kRaw; }, "the prompt is a text to continue");
  raw->excludes(chat)->excludes(system);
  add_thinking(*sub, options.thinking);
  sub->add_flag("--verbose", options.verbose, "print the speed even when stderr is no terminal");
  under_heading(*sub, "Sampling", [&] { add_sampling_options(*sub, options.sampling); });
  add_model_options(*sub, options.model);
  sub->callback([&] {
    check_sampling(options.sampling.params);
    command = [&] { return run(options); };
  });
}

void add_chat(CLI::App& app, ChatCommandOptions& options, Command& command) {
  CLI::App* sub = app.add_subcommand("chat", "Talk with the model");
  sub->add_option("--system", options.system, "instructions before the conversation")->type_name("TEXT");
  add_thinking(*sub, options.thinking);
  sub->add_flag("--verbose", options.verbose, "print the speed after each reply");
  under_heading(*sub, "Sampling", [&] { add_sampling_options(*sub, options.sampling); });
  under_heading(*sub, "Cache", [&] { add_prefix_options(*sub, options.prefixes); });
  add_model_options(*sub, options.model);
  sub->callback([&] {
    check_sampling(options.sampling.params);
    command = [&] { return chat(options); };
  });
}

void add_serve_limits(CLI::App& app, ServeOptions& options) {
  const auto add_number = [&](const char* name, int& number, const CLI::Validator& validator, const char* help) {
    app.add_option(name, number, help)->check(validator)->capture_default_str();
  };
  add_number("--ctx", options.context, kNotNegative, "positions of one sequence; 0: what the model was trained for");
  add_number("--max-seqs", options.max_sequences, kPositive, "sequences that run at the same time");
  add_number("--max-queue", options.max_queue, kNotNegative, "requests that may wait; further ones get status 429");
  add_number("--max-connections", options.server.limits.max_connections, kPositive, "open connections");
  add_number("--request-timeout", options.request_timeout_s, kNotNegative, "seconds a request may take; 0: any");
  add_number("--grace", options.grace_s, kNotNegative, "seconds that requests have to finish when the server ends");
  app.add_option("--cache-size", options.cache_bytes, "cache of all sequences, as 8GiB; default: enough for all")
      ->transform(CLI::AsSizeValue(false));
  app.add_option("--prefix-size", options.prefix_bytes,
                 "what ended sequences leave behind for later ones that begin alike; default: 1GiB")
      ->transform(CLI::AsSizeValue(false));
  CLI::Option* dir =
      app.add_option("--kv-dir", options.kv_dir, "where that is kept when the server ends")->type_name("DIR");
  app.add_option("--kv-budget", options.kv_budget, "size of that directory, as 20GiB; default: no bound")
      ->transform(CLI::AsSizeValue(false))
      ->needs(dir);
  app.add_option("--max-body", options.server.limits.max_body_bytes, "size of a request, as 64MiB (the default)")
      ->transform(CLI::AsSizeValue(false));
}

void add_serve_defaults(CLI::App& app, RequestDefaults& defaults) {
  add_choice<Thinking>(
      app, "--think", defaults.thinking, "reasoning of requests that do not say (default: high)",
      {{"off", Thinking::kOff}, {"low", Thinking::kLow}, {"high", Thinking::kHigh}, {"max", Thinking::kMax}});
  app.add_option("-n,--max-tokens", defaults.max_tokens, "tokens of an answer; default: to the end of the context")
      ->check(kPositive);
  SamplingParams& params = defaults.sampling;
  app.add_option("--temp", params.temperature, "temperature of requests that do not say")->capture_default_str();
  app.add_option("--top-p", params.top_p, "as in run, for requests that do not say")->capture_default_str();
  app.add_option("--top-k", params.top_k, "as in run, for requests that do not say")->capture_default_str();
  app.add_option("--min-p", params.min_p, "as in run, for requests that do not say")->capture_default_str();
}

void add_serve(CLI::App& app, ServeOptions& options, Command& command) {
  CLI::App* sub = app.add_subcommand("serve", "Serve a model over HTTP: the APIs of OpenAI and Anthropic");
  add_model_options(*sub, options.model);
  ServerConfig& server = options.server;
  sub->add_option("--host", server.host, "address to listen at; 0.0.0.0: all of them")->capture_default_str();
  sub->add_option("--port", server.port, "0: a free one")->check(CLI::Range(0, 65535))->capture_default_str();
  sub->add_option("--api-key", server.api_keys, "a key that clients need; may be given several times")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->type_name("KEY");
  sub->add_option("--api-key-file", options.key_file, "keys that clients need, one a line")->type_name("FILE");
  sub->add_flag("--cors", server.cors, "pages of any origin may ask");
  sub->add_option("--name", options.name, "what the APIs call the model; default: the file's name")->type_name("TEXT");
  add_serve_limits(*sub, options);
  add_serve_defaults(*sub, options.defaults);
  add_choice<std::optional<ChatDialect>>(*sub, "--dialect", options.dialect,
                                         "how prompts are written; default: as the model tells",
                                         {{"official", ChatDialect::kOfficial}, {"preview", ChatDialect::kPreview}});
  sub->add_flag("--strict-official-tokens", options.strict_official_tokens,
                "no protection against control tokens in the messages");
  sub->add_flag("--log-prompts", server.log_prompts, "log the text of requests");
  add_choice<LogLevel>(*sub, "--log-level", options.log_level, "what is logged, and all that is worse (default: info)",
                       {{"debug", LogLevel::kDebug},
                        {"info", LogLevel::kInfo},
                        {"warn", LogLevel::kWarn},
                        {"error", LogLevel::kError},
                        {"off", LogLevel::kOff}});
  sub->callback([&] { command = [&] { return serve(options); }; });
}

void add_logits(CLI::App& app, LogitsOptions& options, Command& command) {
  CLI::App* sub = app.add_subcommand("logits", "Write the logits of a token sequence as a NumPy file");
  sub->add_option("--tokens", options.tokens_file, "whitespace-separated token ids; -: standard input")
      ->type_name("FILE")
      ->required();
  sub->add_option("--out", options.out, "float32 [n, vocab]")->type_name("FILE.npy")->required();
  sub->add_option("--chunk", options.chunk, "tokens fed at a time")->check(kPositive)->capture_default_str();
  sub->add_option("--steps", options.steps, "feed the last N one by one")->check(kNotNegative)->capture_default_str();
  add_model_options(*sub, options.model);
  sub->callback([&] { command = [&] { return logits(options); }; });
}

void add_perplexity(CLI::App& app, PerplexityOptions& options, Command& command) {
  CLI::App* sub = app.add_subcommand("perplexity", "Measure how well a model predicts a text");
  sub->add_option("-f,--file", options.text_file, "the text; -: standard input")->type_name("FILE")->required();
  sub->add_option("--ctx", options.context, "positions of one window")->check(kPositive)->capture_default_str();
  CLI::Option* save =
      sub->add_option("--save-logits", options.save_logits, "keep the logits for --against")->type_name("FILE");
  sub->add_option("--against", options.against, "compare with logits kept before")->type_name("FILE")->excludes(save);
  add_json(*sub, options.json);
  add_model_options(*sub, options.model);
  sub->callback([&] { command = [&] { return perplexity(options); }; });
}

void add_inspect(CLI::App& app, InspectOptions& options, Command& command) {
  CLI::App* sub = app.add_subcommand("inspect", "Show what a model file holds and what running it takes");
  sub->add_option("-m,--model,MODEL", options.model, "GGUF file or safetensors directory (default: the bundled one)")
      ->type_name("PATH");
  sub->add_flag("--tensors", options.tensors, "list every tensor");
  CLI::Option* plan = sub->add_flag("--plan", options.plan, "how much memory running it takes");
  sub->add_option("--ctx", options.context, "positions of one sequence (default: what the model was trained for)")
      ->check(kPositive)
      ->needs(plan);
  sub->add_option("--seqs", options.sequences, "sequences at a time")
      ->check(kPositive)
      ->capture_default_str()
      ->needs(plan);
  add_cache_options(*sub, options.activation_sim, options.kv_type);
  add_json(*sub, options.json);
  sub->callback([&] { command = [&] { return inspect(options); }; });
}

void add_tokenize(CLI::App& app, TokenizeOptions& options, Command& command) {
  CLI::App* sub = app.add_subcommand("tokenize", "Standard input as tokens");
  add_model(*sub, options.model);
  sub->add_flag("--ids", options.ids_only, "ids only, on one line");
  sub->add_flag("--no-special", options.no_special, "control tokens in the text are ordinary text");
  sub->callback([&] { command = [&] { return tokenize(options); }; });
}

void add_detokenize(CLI::App& app, DetokenizeOptions& options, Command& command) {
  CLI::App* sub = app.add_subcommand("detokenize", "Token ids on standard input as text");
  add_model(*sub, options.model);
  sub->callback([&] { command = [&] { return detokenize(options); }; });
}

void add_render(CLI::App& app, RenderOptions& options, Command& command) {
  CLI::App* sub = app.add_subcommand("render", "A JSON request on standard input as the prompt that the model sees");
  add_choice<ChatDialect>(*sub, "--dialect", options.chat.dialect, "how prompts are written (default: official)",
                          {{"official", ChatDialect::kOfficial}, {"preview", ChatDialect::kPreview}});
  add_thinking(*sub, options.chat.thinking);
  sub->add_flag_callback(
      "--keep-thinking", [&] { options.chat.drop_thinking = false; }, "show the reasoning of all earlier answers");
  sub->add_flag("--strict-official-tokens", options.chat.strict_official,
                "no protection against control tokens in the messages");
  sub->add_flag("--as-served", options.as_served, "arrange the messages as the server does");
  sub->add_flag("--json", options.json, "text, and which bytes of it are trusted");
  sub->callback([&] { command = [&] { return render(options); }; });
}

std::string type_names() {
  std::vector<std::string_view> names;
  std::ranges::transform(convertible_types(), std::back_inserter(names),
                         [](DType type) { return dtype_info(type).name; });
  return fmt::format("{}", fmt::join(names, ", "));
}

// Type names count in upper and lower case.
CLI::Option* add_type(CLI::App& app, const std::string& name, std::optional<DType>& type, const std::string& help) {
  const auto parse = [name, &type](const std::string& text) {
    type = dtype_from_name(text);
    if (!type || std::ranges::count(convertible_types(), *type) == 0) {
      throw CLI::ValidationError(name, fmt::format("{} is not one of {}", text, type_names()));
    }
  };
  return app.add_option_function<std::string>(name, parse, help)->type_name("TYPE");
}

void add_convert(CLI::App& app, ConvertOptions& options, Command& command) {
  CLI::App* sub = app.add_subcommand("convert", "Make one GGUF file of a safetensors directory");
  sub->add_option("SOURCE", options.source, "directory with config.json and tokenizer.json")
      ->type_name("DIR")
      ->required();
  sub->add_option("-o,--out", options.out, "the file to write")->type_name("FILE.gguf")->required();
  add_type(*sub, "--type", options.recipe.all,
           "all matrices: " + type_names() + " (default: the nearest to what the source holds)");
  add_type(*sub, "--experts", options.recipe.experts, "routed experts");
  add_type(*sub, "--shared", options.recipe.shared, "shared experts");
  add_type(*sub, "--attn", options.recipe.attention, "attention");
  add_type(*sub, "--compressor", options.recipe.compressor, "compressors and indexers");
  add_type(*sub, "--embd", options.recipe.embedding, "token embedding");
  add_type(*sub, "--output", options.recipe.output, "output matrix");
  sub->add_option("--name", options.name, "what the model is called (default: the directory's name)")
      ->type_name("TEXT");
  add_choice<std::optional<ChatDialect>>(*sub, "--dialect", options.dialect,
                                         "how prompts are written (default: as the name tells)",
                                         {{"official", ChatDialect::kOfficial}, {"preview", ChatDialect::kPreview}});
  sub->callback([&] { command = [&] { return convert(options); }; });
}

CLI::Validator known_shape() {
  return CLI::IsMember(std::vector<std::string>(shape_names().begin(), shape_names().end()));
}

std::vector<CLI::Option*> add_synthetic_types(CLI::App& app, SyntheticOptions& options) {
  return {
      app.add_option("--experts", options.experts, "types of the routed experts: gate and up, or gate and up / down")
          ->type_name("T[/T]")
          ->capture_default_str(),
      add_type(app, "--rest", options.rest, "other matrices (default: Q8_0, compressors and embedding F16)"),
      app.add_option("--layers", options.layers, "the first N layers only")->check(kPositive)};
}

void add_synth(CLI::App& app, SynthOptions& options, Command& command) {
  CLI::App* sub = app.add_subcommand("synth", "Write a GGUF file with random weights");
  sub->add_option("SPEC", options.model.shape, "whose shape")->required()->check(known_shape());
  sub->add_option("-o,--out", options.out, "the file to write")->type_name("FILE.gguf")->required();
  add_synthetic_types(*sub, options.model);
  sub->callback([&] { command = [&] { return synth(options); }; });
}

void add_bench(CLI::App& app, BenchOptions& options, Command& command) {
  CLI::App* sub = app.add_subcommand("bench", "Measure the speed of a model");
  add_model_options(*sub, options.model);
  CLI::Option* synthetic =
      sub->add_option("--synthetic", options.synthetic.shape, "no model, but random weights of this shape")
          ->check(known_shape())
          ->excludes("--model");
  for (CLI::Option* option : add_synthetic_types(*sub, options.synthetic)) {
    option->needs(synthetic);
  }
  sub->add_option("--prompt", options.prompts, "tokens of the prompts to process; 0: none")
      ->delimiter(',')
      ->type_name("N[,N...]")
      ->check(kBenchTokens)
      ->capture_default_str();
  const auto add_number = [&](const char* name, int& number, const CLI::Validator& validator, const char* help) {
    sub->add_option(name, number, help)->check(validator)->capture_default_str();
  };
  add_number("--gen", options.gen, kBenchTokens, "tokens to decode; 0: none");
  add_number("--depth", options.depth, kBenchTokens, "positions before prompt and decoding");
  add_number("--seqs", options.seqs, kBenchRows, "sequences that decode together");
  add_number("--chunk", options.chunk, kBenchChunk, "tokens of a prompt in one step");
  add_number("--repeat", options.repeat, kPositive, "runs; the median and the best are shown");
  sub->add_flag("--profile", options.profile, "time, bytes and rate of every op");
  add_json(*sub, options.json);
  sub->callback([&] { command = [&] { return bench(options); }; });
}

void add_cache(CLI::App& app, CacheCommandOptions& options, Command& command) {
  CLI::App* sub = app.add_subcommand("cache", "Look after a directory of the disk cache (--kv-dir)");
  sub->require_subcommand(1);
  const auto add = [&](const char* name, const char* help, int (*run)(const CacheCommandOptions&)) {
    CLI::App* action = sub->add_subcommand(name, help);
    action->add_option("DIR", options.dir, "the directory")->required()->type_name("");
    add_json(*action, options.json);
    action->callback([&, run] { command = [&, run] { return run(options); }; });
    return action;
  };
  add("list", "Models, and how much of each is there", cache_list);
  add("verify", "Read everything; exit code 1 when something is damaged", cache_verify);
  add("prune", "Remove what was not used for longest", cache_prune)
      ->add_option("--budget", options.budget, "bytes to leave, as 50GiB")
      ->required()
      ->transform(CLI::AsSizeValue(false));
}

// Names the first word that nothing expected.
std::string describe_unexpected(const CLI::App& app) {
  const bool has_command = !app.get_subcommands().empty();
  const std::vector<std::string> before_command = app.remaining(false);
  if (has_command && !before_command.empty()) {
    return fmt::format("'{}' stands before the command, expected behind it", before_command.front());
  }
  const std::string word = app.remaining(true).front();
  if (word.starts_with('-')) {
    return fmt::format("unknown option '{}'", word);
  }
  return fmt::format("{} '{}'", has_command ? "unexpected argument" : "unknown command", word);
}

// One line on stderr, whatever the text holds: a file's name may carry sequences that terminals obey.
int fail(int exit_code, std::string text) {
  const auto is_control = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; };
  std::ranges::replace_if(text, is_control, ' ');
  std::fputs(fmt::format("fathom: error: {}\n", text).c_str(), stderr);
  return exit_code;
}

// CLI11 takes an empty text for the number 0, and an unset variable of a shell script easily becomes one.
void refuse_empty_numbers(const CLI::App& command) {
  for (const CLI::Option* option : command.get_options()) {
    const std::string type = option->get_type_name();
    const bool is_number = type.starts_with("INT") || type.starts_with("UINT") || type.starts_with("FLOAT");
    if (is_number && std::ranges::count(option->results(), "") > 0) {
      throw UsageError(fmt::format("{}: empty, expected a number", option->get_name()));
    }
  }
}

int parse_and_run(int argc, char** argv) {
  CLI::App app("Run DeepSeek-V4 models on your own machine.", "fathom");
  app.set_version_flag("--version", "fathom " FATHOM_VERSION);
  app.require_subcommand(0, 1);  // none is refused below, after an unknown word was named
  app.formatter(std::make_shared<HelpFormatter>());

  RunOptions run_options;
  ChatCommandOptions chat_options;
  ServeOptions serve_options;
  LogitsOptions logits_options;
  PerplexityOptions perplexity_options;
  InspectOptions inspect_options;
  TokenizeOptions tokenize_options;
  DetokenizeOptions detokenize_options;
  RenderOptions render_options;
  ConvertOptions convert_options;
  SynthOptions synth_options;
  BenchOptions bench_options;
  CacheCommandOptions cache_options;
  Command command;
  add_run(app, run_options, command);
  add_chat(app, chat_options, command);
  add_serve(app, serve_options, command);
  add_logits(app, logits_options, command);
  add_perplexity(app, perplexity_options, command);
  add_inspect(app, inspect_options, command);
  add_tokenize(app, tokenize_options, command);
  add_detokenize(app, detokenize_options, command);
  add_render(app, render_options, command);
  add_convert(app, convert_options, command);
  add_synth(app, synth_options, command);
  add_bench(app, bench_options, command);
  add_cache(app, cache_options, command);
  app.set_help_all_flag("--help-all", "Help for every command");  // after them, or each would have it too

  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& request) {  // --help, --version
    std::ostringstream text;
    app.exit(request, text, text);
    write_stdout(text.str());
    return kExitOk;
  } catch (const CLI::ExtrasError&) {
    throw UsageError(describe_unexpected(app));
  } catch (const CLI::ParseError& error) {
    return fail(kExitUsage, fmt::format("{} (see --help)", error.what()));
  }
  if (!command) {
    throw UsageError("no command given");
  }
  refuse_empty_numbers(*app.get_subcommands().front());
  return command();
}

int main_program(int argc, char** argv) {
  try {
    return parse_and_run(argc, argv);
  } catch (const UsageError& error) {
    return fail(kExitUsage, fmt::format("{} (see --help)", error.what()));
  } catch (const std::bad_alloc&) {
    return fail(kExitError, "out of memory");
  } catch (const std::exception& error) {
    return fail(kExitError, error.what());
  }
}

}  // namespace
}  // namespace fathom::cli

int main(int argc, char** argv) {
  fathom::cli::reserve_standard_streams();
  fathom::cli::report_lost_pages();
  return fathom::cli::main_program(argc, argv);
}
