// Every weight format to float32: the meaning of the bytes, on which encoders, backends and tools agree. Plain and
// portable, not fast. Values of GGUF formats equal those of ggml's own decoders bit for bit.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/dtype.h"
#include "core/weight.h"

namespace fathom {

// n consecutive values; n is a multiple of the type's block size. Integers become the nearest float32. kF8_E4M3 and
// kF4_E2M1 give the codes' own values: their scales lie elsewhere.
void dequantize_row(DType dtype, const std::byte* row, float* out, int64_t n) noexcept;

// One row of a weight, in_dim values, scales applied.
void dequantize_row(const Weight& weight, int slice, int row, float* out) noexcept;

}  // namespace fathom
