#include "server/service.h"

#include "server/api_error.h"

namespace fathom {

void require_healthy(Service& service) {
  if (service.ending) {
    throw ApiError(ApiErrorKind::kOverloaded, "the server is shutting down");
  }
  if (!service.health.check(service.model.engine.stats())) {
    throw ApiError(ApiErrorKind::kOverloaded, "the engine makes no progress; see the server's log");
  }
}

}  // namespace fathom
