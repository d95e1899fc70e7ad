// FATHOM_CHECK: for bugs only, never reachable by user input. Aborts in every build; FATHOM_DCHECK only in debug
// builds.
#pragma once

namespace fathom {
[[noreturn]] void check_failed(const char* condition, const char* why, const char* file, int line) noexcept;
}

#define FATHOM_CHECK(cond, why)                               \
  do {                                                        \
    if (!(cond)) {                                            \
      ::fathom::check_failed(#cond, why, __FILE__, __LINE__); \
    }                                                         \
  } while (false)

#ifdef NDEBUG
#define FATHOM_DCHECK(cond, why) \
  do {                           \
  } while (false)
#else
#define FATHOM_DCHECK(cond, why) FATHOM_CHECK(cond, why)
#endif
