// A text completion as plain data, read from OpenAI's request.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "sampling/sampling_params.h"
#include "server/served_model.h"

namespace fathom {

struct TextJob {
  std::vector<std::vector<TokenId>> prompts;  // each continued n times
  int n = 1;
  SamplingParams sampling;
  std::optional<int> max_tokens;  // 0: only the prompt, for echo
  std::vector<std::string> stops;
  std::optional<int> logprobs;
  bool echo = false;
  bool stream = false;
  bool include_usage = false;
  bool return_ids = false;  // the generated ids beside the text
  std::string model_name;
};

// A text begins with the token that begins every document; control tokens in it count: the text is the prompt. With
// "suffix", what is asked for is what comes between the two. Throws Error kBadRequest.
[[nodiscard]] TextJob read_text_job(const ServedModel& model, const nlohmann::ordered_json& body);

}  // namespace fathom
