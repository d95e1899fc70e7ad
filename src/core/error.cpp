#include "core/error.h"

namespace fathom {

std::string_view error_code_name(ErrorCode code) noexcept {
  switch (code) {
    case ErrorCode::kBadModel:
      return "bad_model";
    case ErrorCode::kUnsupported:
      return "unsupported";
    case ErrorCode::kOutOfMemory:
      return "out_of_memory";
    case ErrorCode::kDevice:
      return "device";
    case ErrorCode::kIo:
      return "io";
    case ErrorCode::kBadRequest:
      return "bad_request";
    case ErrorCode::kContextExhausted:
      return "context_exhausted";
    case ErrorCode::kContextBound:
      return "context_bound";
    case ErrorCode::kEmptyStep:
      return "empty_step";
    case ErrorCode::kStepOutOfOrder:
      return "step_out_of_order";
    case ErrorCode::kPoisoned:
      return "poisoned";
    case ErrorCode::kSnapshotMismatch:
      return "snapshot_mismatch";
    case ErrorCode::kRewindBound:
      return "rewind_bound";
    case ErrorCode::kCacheFull:
      return "cache_full";
  }
  return "unknown";
}

}  // namespace fathom
