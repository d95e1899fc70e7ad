// Anthropic's messages API (spec/encoding.md 4.6): its requests as ChatJobs, its answers and streams.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "server/chat_endpoint.h"

namespace fathom {

// POST /v1/messages, for serve_chat(). Throws Error kBadRequest that begins with the path of the field at fault.
[[nodiscard]] ChatExchange read_anthropic_messages(const ServedModel& model, const HttpRequest& request,
                                                   const nlohmann::ordered_json& body);

// POST /v1/messages/count_tokens: the same body, of which nothing is generated. Throws as above.
[[nodiscard]] HttpResponse count_anthropic_tokens(const Service& service, const HttpRequest& request);

}  // namespace fathom
