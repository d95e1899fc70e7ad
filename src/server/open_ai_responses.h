// OpenAI's responses API (spec/encoding.md 4.5), stateless: the client sends the whole input with every request.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "server/chat_endpoint.h"

namespace fathom {

// POST /v1/responses, for serve_chat(). Throws Error kBadRequest that begins with the path of the field at fault.
[[nodiscard]] ChatExchange read_open_ai_responses(const ServedModel& model, const HttpRequest& request,
                                                  const nlohmann::ordered_json& body);

}  // namespace fathom
