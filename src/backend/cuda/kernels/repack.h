// Launches that build the planes of a DeviceWeight.
#pragma once

#include "backend/cuda/kernels/params.h"

namespace fathom::cuda {

enum class RepackSource : uint8_t { kQ8_0, kMXFP4, kE2M1, kQ4_K, kQ2_K, kQ3_K, kIQ2_XXS };

// Consecutive blocks of consecutive rows: planes have no gaps between rows.
struct RepackParams {
  RepackSource source = RepackSource::kQ8_0;
  int block_bytes = 0;
  int64_t n_blocks = 0;
  const uint8_t* from = nullptr;
  uint8_t* codes = nullptr;
  uint8_t* high = nullptr;
  uint8_t* scales = nullptr;
  uint8_t* supers = nullptr;
};
void repack(const Launch& launch, const RepackParams& p);

// `bytes` is a multiple of 4.
void fill_random_bits(const Launch& launch, void* out, size_t bytes, uint64_t seed);
void fill_words(const Launch& launch, void* out, size_t bytes, uint32_t word);
// n values of a float format, uniform in mean +- spread.
void fill_random_floats(const Launch& launch, Format format, void* out, int64_t n, uint64_t seed, float mean,
                        float spread);

}  // namespace fathom::cuda
