// Parts of requests and responses that OpenAI's chat and text completions share.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "sampling/sampling_params.h"
#include "server/chat_session.h"
#include "server/request_fields.h"
#include "server/served_model.h"

namespace fathom {

// temperature, top_p, top_k, min_p, penalties, logit_bias and seed; what is missing is the server's default.
[[nodiscard]] SamplingParams read_sampling(const RequestFields& request, const SamplingParams& defaults, int vocab);

// The stop strings: one or up to 16, none of them empty.
[[nodiscard]] std::vector<std::string> read_stops(const RequestFields& request, const char* key);

// An array of ids inside the vocabulary.
[[nodiscard]] std::vector<TokenId> read_token_ids(const RequestFields& request, const char* key, int vocab);
[[nodiscard]] std::vector<TokenId> token_ids(const nlohmann::ordered_json& ids, const std::string& path, int vocab);

[[nodiscard]] nlohmann::ordered_json usage_json(const ChatUsage& usage);

// Seconds since 1970.
[[nodiscard]] int64_t unix_time();

// As one line; text that is no UTF-8 is replaced.
[[nodiscard]] std::string dump(const nlohmann::ordered_json& json);

// The same for a request with the same seed, as long as model and program stay.
[[nodiscard]] std::string system_fingerprint(const ServedModel& model);

}  // namespace fathom
