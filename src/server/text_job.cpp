#include "server/text_job.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/prompt_text.h"
#include "server/openai_fields.h"
#include "server/request_fields.h"

namespace fathom {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kMaxChoices = 16;
constexpr size_t kMaxPrompts = 64;

std::vector<TokenId> document_ids(const Tokenizer& tokenizer, std::string text) {
  if (!text.starts_with(literal::kBos)) {
    text.insert(0, literal::kBos);
  }
  return tokenizer.encode(text);
}

// What comes between `prefix` and `suffix`.
std::vector<TokenId> infill_ids(const Tokenizer& tokenizer, const std::string& prefix, const std::string& suffix) {
  const auto begin = tokenizer.find("<\uFF5Cfim\u2581begin\uFF5C>");
  const auto hole = tokenizer.find("<\uFF5Cfim\u2581hole\uFF5C>");
  const auto end = tokenizer.find("<\uFF5Cfim\u2581end\uFF5C>");
  const auto bos = tokenizer.bos();
  if (!begin || !hole || !end || !bos) {
    throw Error(ErrorCode::kBadRequest, "suffix: this model has no tokens for what comes between two texts");
  }
  const EncodeOptions as_text{.added_tokens = AddedTokenPolicy::kNowhere};
  std::vector<TokenId> ids{*bos, *begin};
  const auto append = [&](const std::string& text) {
    const std::vector<TokenId> more = tokenizer.encode(text, as_text);
    ids.insert(ids.end(), more.begin(), more.end());
  };
  append(prefix);
  ids.push_back(*hole);
  append(suffix);
  ids.push_back(*end);
  return ids;
}

std::vector<std::vector<TokenId>> read_prompts(const ServedModel& model, const RequestFields& request) {
  const Tokenizer& tokenizer = model.tokenizer;
  const int vocab = static_cast<int>(tokenizer.size());
  const Json* prompt = request.find("prompt");
  const std::string suffix = request.text("suffix").value_or("");
  if (prompt == nullptr || (!prompt->is_string() && !prompt->is_array()) || prompt->empty()) {
    request.fail("prompt", "a string, an array of strings, or token ids");
  }
  const auto text_ids = [&](const std::string& text) {
    return suffix.empty() ? document_ids(tokenizer, text) : infill_ids(tokenizer, text, suffix);
  };
  if (prompt->is_string()) {
    return {text_ids(prompt->get<std::string>())};
  }
  if (prompt->front().is_number()) {
    return {token_ids(*prompt, "prompt", vocab)};
  }
  std::vector<std::vector<TokenId>> prompts;
  for (const Json& one : *prompt) {
    const std::string path = fmt::format("prompt[{}]", prompts.size());
    if (one.is_string()) {
      prompts.push_back(text_ids(one.get<std::string>()));
    } else if (one.is_array() && !one.empty()) {
      prompts.push_back(token_ids(one, path, vocab));
    } else {
      throw Error(ErrorCode::kBadRequest, fmt::format("{}: expected a string or token ids", path));
    }
  }
  if (prompts.size() > kMaxPrompts) {
    throw Error(ErrorCode::kBadRequest,
                fmt::format("prompt: {} of them, expected at most {}", prompts.size(), kMaxPrompts));
  }
  return prompts;
}

}  // namespace

TextJob read_text_job(const ServedModel& model, const Json& body) {
  const RequestFields request(body);
  TextJob job;
  job.prompts = read_prompts(model, request);
  job.n = static_cast<int>(request.integer("n", 1, kMaxChoices).value_or(1));
  job.sampling = read_sampling(request, model.defaults.sampling, static_cast<int>(model.tokenizer.size()));
  const auto max_tokens = request.integer("max_tokens", 0, INT32_MAX);
  job.max_tokens = max_tokens ? std::optional(static_cast<int>(*max_tokens)) : model.defaults.max_tokens;
  job.stops = read_stops(request, "stop");
  if (const auto logprobs = request.integer("logprobs", 0, kMaxTopLogprobs)) {
    job.logprobs = static_cast<int>(*logprobs);
  }
  job.echo = request.flag("echo").value_or(false);
  job.stream = request.flag("stream").value_or(false);
  if (const auto options = request.object("stream_options")) {
    job.include_usage = options->flag("include_usage").value_or(false);
  }
  job.return_ids = request.flag("return_token_ids").value_or(false);
  job.model_name = request.text("model").value_or(model.id);
  return job;
}

}  // namespace fathom
