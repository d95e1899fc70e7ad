#include "server/info_endpoints.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "core/error.h"
#include "server/api_error.h"
#include "server/chat_session.h"
#include "server/openai_chat.h"
#include "server/openai_fields.h"
#include "server/request_fields.h"

namespace fathom {
namespace {

using Json = nlohmann::ordered_json;

HttpResponse respond(const Json& json, int status = 200) { return {.status = status, .body = dump(json)}; }

Json model_json(const ServedModel& model, const std::string& id, ApiFamily family) {
  if (family == ApiFamily::kAnthropic) {
    const auto created = fmt::gmtime(static_cast<std::time_t>(model.created));
    return {{"type", "model"},
            {"id", id},
            {"display_name", model.id},
            {"created_at", fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", created)}};
  }
  const int context = model.engine.max_context();
  return {{"id", id},
          {"object", "model"},
          {"created", model.created},
          {"owned_by", "fathom"},
          {"context_length", context},
          {"max_model_len", context}};
}

const char* thinking_name(Thinking thinking) {
  switch (thinking) {
    case Thinking::kOff:
      return "none";
    case Thinking::kLow:
      return "low";
    case Thinking::kHigh:
      return "high";
    case Thinking::kMax:
      break;
  }
  return "max";
}

std::vector<TokenId> ids_of_text(const Service& service, const RequestFields& request, const std::string& text) {
  const bool special = request.flag("parse_special").value_or(true);
  std::vector<TokenId> ids = service.model.tokenizer.encode(
      text, {.added_tokens = special ? AddedTokenPolicy::kEverywhere : AddedTokenPolicy::kNowhere});
  const auto bos = service.model.tokenizer.bos();
  if (request.flag("add_special").value_or(false) && bos) {
    ids.insert(ids.begin(), *bos);
  }
  return ids;
}

}  // namespace

HttpResponse list_models(Service& service, HttpRequest& request) {
  const ApiFamily family = api_family(request);
  const Json models = Json::array({model_json(service.model, service.model.id, family)});
  if (family == ApiFamily::kAnthropic) {
    return respond(
        {{"data", models}, {"has_more", false}, {"first_id", service.model.id}, {"last_id", service.model.id}});
  }
  return respond({{"object", "list"}, {"data", models}});
}

HttpResponse show_model(Service& service, HttpRequest& request) {
  constexpr std::string_view kParent = "/models/";
  const std::string id = request.path.substr(request.path.find(kParent) + kParent.size());
  return respond(model_json(service.model, id, api_family(request)));
}

HttpResponse show_props(Service& service, HttpRequest&) {
  const ServedModel& model = service.model;
  const SamplingParams& sampling = model.defaults.sampling;
  return respond({{"model", model.id},
                  {"max_context", model.engine.max_context()},
                  {"vocab_size", model.tokenizer.size()},
                  {"dialect", model.dialect == ChatDialect::kOfficial ? "official" : "preview"},
                  {"defaults",
                   {{"reasoning_effort", thinking_name(model.defaults.thinking)},
                    {"temperature", sampling.temperature},
                    {"top_p", sampling.top_p},
                    {"top_k", sampling.top_k},
                    {"min_p", sampling.min_p},
                    {"max_tokens", model.defaults.max_tokens ? Json(*model.defaults.max_tokens) : Json()}}}});
}

HttpResponse show_health(Service&, HttpRequest&) { return respond({{"status", "ok"}}); }

HttpResponse show_readiness(Service& service, HttpRequest&) {
  if (service.ending) {
    return respond({{"status", "ending"}}, 503);
  }
  const EngineStats stats = service.model.engine.stats();
  const bool healthy = service.health.check(stats);
  return respond({{"status", healthy ? "ready" : "unhealthy"}, {"running", stats.running}, {"waiting", stats.waiting}},
                 healthy ? 200 : 503);
}

HttpResponse tokenize_text(Service& service, HttpRequest& request) {
  const Json body = parse_body(request.body);
  const RequestFields fields(body);
  std::vector<TokenId> ids;
  if (fields.has("messages")) {
    const ChatExchange exchange = read_openai_chat(service.model, request, body);
    ids = ChatSession::prompt_tokens(service.model, exchange.job);
  } else {
    std::optional<std::string> text;
    for (const char* key : {"content", "prompt", "text"}) {
      text = text ? text : fields.text(key);
    }
    if (!text) {
      fields.fail("content", "a string, or messages");
    }
    ids = ids_of_text(service, fields, *text);
  }
  return respond({{"tokens", ids}, {"count", ids.size()}, {"max_model_len", service.model.engine.max_context()}});
}

HttpResponse detokenize_ids(Service& service, HttpRequest& request) {
  const Json body = parse_body(request.body);
  const RequestFields fields(body);
  const std::vector<TokenId> ids = read_token_ids(fields, "tokens", static_cast<int>(service.model.tokenizer.size()));
  const std::string text = service.model.tokenizer.decode(ids);
  return respond({{"content", text}, {"prompt", text}});
}

}  // namespace fathom
