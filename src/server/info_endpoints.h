// Endpoints that generate nothing.
#pragma once

#include "server/http.h"
#include "server/service.h"

namespace fathom {

// GET /v1/models: OpenAI's shape; Anthropic's for a request with an anthropic-version header.
[[nodiscard]] HttpResponse list_models(Service& service, HttpRequest& request);
// GET /v1/models/ID, for any ID: every name is served by the one model.
[[nodiscard]] HttpResponse show_model(Service& service, HttpRequest& request);
// GET /props: limits and defaults.
[[nodiscard]] HttpResponse show_props(Service& service, HttpRequest& request);
// GET /health: the process lives. GET /ready: it can serve (else 503).
[[nodiscard]] HttpResponse show_health(Service& service, HttpRequest& request);
[[nodiscard]] HttpResponse show_readiness(Service& service, HttpRequest& request);
// POST /tokenize: "content" (or "prompt", "text") as ids, or "messages" as the prompt that a chat would have.
// POST /detokenize: "tokens" as text.
[[nodiscard]] HttpResponse tokenize_text(Service& service, HttpRequest& request);
[[nodiscard]] HttpResponse detokenize_ids(Service& service, HttpRequest& request);

}  // namespace fathom
