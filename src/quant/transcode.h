// Rewrites a weight in another type, a bounded piece at a time.
#pragma once

#include <cstddef>
#include <functional>
#include <span>

#include "core/dtype.h"
#include "core/thread_pool.h"
#include "core/weight.h"

namespace fathom {

// Bytes of `weight` in type `target`.
[[nodiscard]] uint64_t transcoded_bytes(const Weight& weight, DType target);

// Passes the bytes on in order, all slices after each other. Exact where the target holds every value of the source:
// the same type, F32, BF16 of F8_E4M3, MXFP4 of F4_E2M1. Throws kBadModel naming the weight when a value has no place
// in the target, and what `write` throws.
void transcode(const Weight& weight, DType target, ThreadPool& pool,
               const std::function<void(std::span<const std::byte>)>& write);

}  // namespace fathom
