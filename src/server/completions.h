// POST /v1/completions: a text, or token ids, continued as they are.
#pragma once

#include "server/http.h"
#include "server/service.h"

namespace fathom {

// Throws ApiError and Error kBadRequest before anything was sent.
[[nodiscard]] HttpResponse serve_completion(Service& service, HttpRequest& request);

}  // namespace fathom
