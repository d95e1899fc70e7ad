#include "core/check.h"

#include <cstdio>
#include <cstdlib>

namespace fathom {

void check_failed(const char* condition, const char* why, const char* file, int line) noexcept {
  std::fprintf(stderr, "%s:%d: check failed: %s (%s)\n", file, line, condition, why);
  std::abort();
}

}  // namespace fathom
