// The one exception type. Text says what, which, expected, got; the code says who is at fault.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

namespace fathom {

enum class ErrorCode : uint8_t {
  kBadModel,     // a model file contradicts itself or the format
  kUnsupported,  // well-formed, but not something this build handles
  kOutOfMemory,
  kDevice,
  kIo,
  kBadRequest,  // the caller's input, over any interface
  // Cache transactions (design: plan -> execute -> commit).
  kContextExhausted,
  kContextBound,
  kEmptyStep,
  kStepOutOfOrder,
  kPoisoned,
  kSnapshotMismatch,
  kRewindBound,
  kCacheFull,
};

// Stable snake_case name of a code ("bad_model"), for logs and JSON.
[[nodiscard]] std::string_view error_code_name(ErrorCode code) noexcept;

class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& what) : std::runtime_error(what), code_(code) {}
  [[nodiscard]] ErrorCode code() const noexcept { return code_; }

 private:
  ErrorCode code_;
};

}  // namespace fathom
