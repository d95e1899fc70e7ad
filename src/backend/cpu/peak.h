// What the processor could do at best, measured: the floor and the ceiling that `bench` compares a model's speed with.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace fathom::cpu {

// Loops that do one thing only.
struct PeakKernels {
  // Loads every byte once; n_bytes is a multiple of 512, data aligned to 64.
  uint64_t (*read)(const std::byte* data, size_t n_bytes) noexcept;
  // int8 products and sums on registers.
  int32_t (*multiply)(int64_t rounds) noexcept;
  int64_t operations_per_round = 0;  // multiplications and additions
};

[[nodiscard]] const PeakKernels& peak_kernels_avx2() noexcept;
[[nodiscard]] const PeakKernels& peak_kernels_avx512() noexcept;
[[nodiscard]] const PeakKernels& peak_kernels_amx() noexcept;

struct CpuPeaks {
  double read_bytes_per_s = 0.0;
  double int8_operations_per_s = 0.0;
};

// All threads together, the best of a few rounds; takes about a second. Allocates a gigabyte meanwhile, more than a
// cache holds, and throws kOutOfMemory when it cannot. `isa` is the name of a table that this CPU runs.
[[nodiscard]] CpuPeaks measure_peaks(std::string_view isa, int threads);

}  // namespace fathom::cpu
