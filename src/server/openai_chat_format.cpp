#include "server/openai_chat_format.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "server/object_id.h"
#include "server/openai_fields.h"
#include "server/sse.h"

namespace fathom {
namespace {

using Json = nlohmann::ordered_json;

// The lowest value that DeepSeek's API reports.
constexpr float kLowestLogprob = -9999.0F;

Json token_json(const Tokenizer& tokenizer, TokenId token, float logprob) {
  const std::string_view bytes = tokenizer.token_bytes(token);
  Json byte_list = Json::array();
  for (const char byte : bytes) {
    byte_list.push_back(static_cast<unsigned char>(byte));
  }
  return {{"token", std::string(bytes)}, {"logprob", std::max(logprob, kLowestLogprob)}, {"bytes", byte_list}};
}

Json call_json(const ToolCall& call) {
  return {{"id", call.id}, {"type", "function"}, {"function", {{"name", call.name}, {"arguments", call.arguments}}}};
}

}  // namespace

OpenAiChatFormat::OpenAiChatFormat(const ServedModel& model, std::string model_name, bool include_usage, int n_choices)
    : tokenizer_(model.tokenizer),
      id_(object_id("chatcmpl-")),
      created_(unix_time()),
      model_name_(std::move(model_name)),
      fingerprint_(system_fingerprint(model)),
      include_usage_(include_usage),
      n_choices_(n_choices) {}

Json OpenAiChatFormat::head(const char* object) const {
  return {{"id", id_},
          {"object", object},
          {"created", created_},
          {"model", model_name_},
          {"system_fingerprint", fingerprint_}};
}

Json OpenAiChatFormat::logprobs_json(const std::vector<ChosenToken>& tokens) const {
  Json content = Json::array();
  Json reasoning = Json::array();
  for (const ChosenToken& token : tokens) {
    Json entry = token_json(tokenizer_, token.token, token.logprobs.chosen);
    Json& top = entry["top_logprobs"] = Json::array();
    for (const TokenLogprob& other : token.logprobs.top) {
      top.push_back(token_json(tokenizer_, other.token, other.logprob));
    }
    (token.reasoning ? reasoning : content).push_back(std::move(entry));
  }
  Json json = {{"content", std::move(content)}};
  if (!reasoning.empty()) {
    json["reasoning_content"] = std::move(reasoning);
  }
  return json;
}

Json OpenAiChatFormat::answer_json(int index, const ChatAnswer& answer) const {
  Json message = {{"role", "assistant"}, {"content", answer.content}};
  if (!answer.reasoning.empty()) {
    message["reasoning_content"] = answer.reasoning;
  }
  if (!answer.tool_calls.empty()) {
    Json& calls = message["tool_calls"] = Json::array();
    for (const ToolCall& call : answer.tool_calls) {
      calls.push_back(call_json(call));
    }
  }
  return {{"index", index},
          {"message", std::move(message)},
          {"logprobs", answer.tokens.empty() ? Json() : logprobs_json(answer.tokens)},
          {"finish_reason", finish_name(answer.finish)}};
}

std::string OpenAiChatFormat::reply(const ChatReply& reply) {
  Json json = head("chat.completion");
  Json& choices = json["choices"] = Json::array();
  for (size_t i = 0; i < reply.answers.size(); ++i) {
    choices.push_back(answer_json(static_cast<int>(i), reply.answers[i]));
  }
  json["usage"] = usage_json(reply.usage);
  return dump(json);
}

std::string OpenAiChatFormat::chunk(int choice, const Json& delta, const char* finish_reason,
                                    const std::vector<ChosenToken>& tokens) const {
  Json json = head("chat.completion.chunk");
  const Json finish = finish_reason == nullptr ? Json() : Json(finish_reason);
  json["choices"] = Json::array({{{"index", choice},
                                  {"delta", delta},
                                  {"logprobs", tokens.empty() ? Json() : logprobs_json(tokens)},
                                  {"finish_reason", finish}}});
  if (include_usage_) {
    json["usage"] = nullptr;
  }
  return sse_data(dump(json));
}

std::string OpenAiChatFormat::begin(const ChatUsage&) {
  std::string out;
  for (int choice = 0; choice < n_choices_; ++choice) {
    out += chunk(choice, {{"role", "assistant"}, {"content", ""}}, nullptr, {});
  }
  return out;
}

std::string OpenAiChatFormat::event(const ChatEvent& event) {
  const ReplyEvent& reply = event.reply;
  const auto call_delta = [&](const Json& call) { return Json{{"tool_calls", Json::array({call})}}; };
  switch (reply.kind) {
    case ReplyEvent::Kind::kReasoning:
      return chunk(event.choice, {{"reasoning_content", reply.text}}, nullptr, event.tokens);
    case ReplyEvent::Kind::kContent:
      return chunk(event.choice, {{"content", reply.text}}, nullptr, event.tokens);
    case ReplyEvent::Kind::kCallStart:
      return chunk(event.choice,
                   call_delta({{"index", reply.call},
                               {"id", reply.id},
                               {"type", "function"},
                               {"function", {{"name", reply.name}, {"arguments", ""}}}}),
                   nullptr, {});
    case ReplyEvent::Kind::kArguments:
      return chunk(event.choice, call_delta({{"index", reply.call}, {"function", {{"arguments", reply.text}}}}),
                   nullptr, {});
    case ReplyEvent::Kind::kCallEnd:
      return {};
    case ReplyEvent::Kind::kFinish:
      break;
  }
  return chunk(event.choice, Json::object(), finish_name(reply.reason), event.tokens);
}

std::string OpenAiChatFormat::end(const ChatUsage& usage) {
  std::string out;
  if (include_usage_) {
    Json json = head("chat.completion.chunk");
    json["choices"] = Json::array();
    json["usage"] = usage_json(usage);
    out = sse_data(dump(json));
  }
  return out + sse_data("[DONE]");
}

std::string OpenAiChatFormat::error(const ApiError& error) {
  return sse_data(error_json(error, ApiFamily::kOpenAi, id_));
}

}  // namespace fathom
