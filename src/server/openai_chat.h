// POST /v1/chat/completions as OpenAI and DeepSeek define it (docs/server.md lists the differences).
#pragma once

#include "server/chat_endpoint.h"

namespace fathom {

// A ReadChat. Throws Error kBadRequest.
[[nodiscard]] ChatExchange read_openai_chat(const ServedModel& model, const HttpRequest& request,
                                            const nlohmann::ordered_json& body);

}  // namespace fathom
