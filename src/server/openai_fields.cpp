#include "server/openai_fields.h"

#include <fmt/format.h>

#include <charconv>
#include <chrono>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/ordered_json.h"
#include "core/printable.h"

namespace fathom {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMaxStops = 16;

std::vector<LogitBias> read_logit_bias(const RequestFields& request, int vocab) {
  std::vector<LogitBias> biases;
  const std::optional<RequestFields> map = request.object("logit_bias");
  if (!map) {
    return biases;
  }
  for (const auto& [key, value] : map->json().items()) {
    LogitBias bias;
    const auto parsed = std::from_chars(key.data(), key.data() + key.size(), bias.token);
    if (parsed.ec != std::errc() || parsed.ptr != key.data() + key.size() || bias.token < 0 || bias.token >= vocab) {
      throw Error(ErrorCode::kBadRequest,
                  fmt::format("logit_bias: expected token ids from 0 to {} as keys, got {}", vocab - 1, key));
    }
    bias.bias = static_cast<float>(map->number(key.c_str()).value_or(0.0));
    biases.push_back(bias);
  }
  return biases;
}

}  // namespace

SamplingParams read_sampling(const RequestFields& request, const SamplingParams& defaults, int vocab) {
  SamplingParams params = defaults;
  const auto take = [&](const char* key, float& value) {
    value = static_cast<float>(request.number(key).value_or(value));
  };
  take("temperature", params.temperature);
  take("top_p", params.top_p);
  take("min_p", params.min_p);
  take("presence_penalty", params.presence_penalty);
  take("frequency_penalty", params.frequency_penalty);
  take("repetition_penalty", params.repetition_penalty);
  params.top_k = static_cast<int>(request.integer("top_k", -1, INT32_MAX).value_or(params.top_k));
  if (const auto seed = request.integer("seed")) {
    params.seed = static_cast<uint64_t>(*seed);
  }
  if (request.has("logit_bias")) {
    params.logit_bias = read_logit_bias(request, vocab);
  }
  validate(params, vocab);
  return params;
}

std::vector<std::string> read_stops(const RequestFields& request, const char* key) {
  std::vector<std::string> stops = request.texts(key);
  if (stops.size() > kMaxStops) {
    throw Error(ErrorCode::kBadRequest,
                fmt::format("{}: expected at most {} strings, got {}", request.path(key), kMaxStops, stops.size()));
  }
  for (size_t i = 0; i < stops.size(); ++i) {
    if (stops[i].empty()) {
      throw Error(ErrorCode::kBadRequest,
                  fmt::format("{}[{}]: expected at least one character, got none", request.path(key), i));
    }
  }
  return stops;
}

std::vector<TokenId> token_ids(const Json& ids, const std::string& path, int vocab) {
  std::vector<TokenId> out;
  out.reserve(ids.size());
  for (const Json& id : ids) {
    if (!id.is_number_unsigned() || id.get<uint64_t>() >= static_cast<uint64_t>(vocab)) {
      throw Error(ErrorCode::kBadRequest, fmt::format("{}[{}]: expected a token id from 0 to {}, got {}", path,
                                                      out.size(), vocab - 1, printable(python_json(id))));
    }
    out.push_back(id.get<TokenId>());
  }
  return out;
}

std::vector<TokenId> read_token_ids(const RequestFields& request, const char* key, int vocab) {
  const Json* ids = request.array(key);
  if (ids == nullptr) {
    request.fail(key, "an array of token ids");
  }
  return token_ids(*ids, request.path(key), vocab);
}

Json usage_json(const ChatUsage& usage) {
  return {{"prompt_tokens", usage.prompt_tokens},
          {"completion_tokens", usage.completion_tokens},
          {"total_tokens", usage.prompt_tokens + usage.completion_tokens},
          {"prompt_tokens_details", {{"cached_tokens", usage.cached_tokens}}},
          {"completion_tokens_details", {{"reasoning_tokens", usage.reasoning_tokens}}},
          {"prompt_cache_hit_tokens", usage.cached_tokens},
          {"prompt_cache_miss_tokens", usage.prompt_tokens - usage.cached_tokens}};
}

int64_t unix_time() {
  return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string dump(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

std::string system_fingerprint(const ServedModel& model) {
  return fmt::format("fp_{:08x}", static_cast<uint32_t>(std::hash<std::string>{}(model.id)));
}

}  // namespace fathom
