// Answers as OpenAI's chat completions write them, with DeepSeek's reasoning_content.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "server/chat_endpoint.h"
#include "tokenizer/tokenizer.h"

namespace fathom {

class OpenAiChatFormat final : public ChatFormat {
 public:
  // `model_name`: as the client calls it. `include_usage`: a last chunk of the stream tells the usage.
  OpenAiChatFormat(const ServedModel& model, std::string model_name, bool include_usage, int n_choices);

  [[nodiscard]] std::string reply(const ChatReply& reply) override;
  [[nodiscard]] std::string begin(const ChatUsage& usage) override;
  [[nodiscard]] std::string event(const ChatEvent& event) override;
  [[nodiscard]] std::string end(const ChatUsage& usage) override;
  [[nodiscard]] std::string error(const ApiError& error) override;

 private:
  [[nodiscard]] nlohmann::ordered_json head(const char* object) const;
  [[nodiscard]] std::string chunk(int choice, const nlohmann::ordered_json& delta, const char* finish_reason,
                                  const std::vector<ChosenToken>& tokens) const;
  [[nodiscard]] nlohmann::ordered_json logprobs_json(const std::vector<ChosenToken>& tokens) const;
  [[nodiscard]] nlohmann::ordered_json answer_json(int index, const ChatAnswer& answer) const;

  const Tokenizer& tokenizer_;
  std::string id_;
  int64_t created_;
  std::string model_name_;
  std::string fingerprint_;
  bool include_usage_;
  int n_choices_;
};

}  // namespace fathom
