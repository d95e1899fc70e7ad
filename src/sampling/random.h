// Random numbers as a pure function of (seed, position): a sequence draws the same numbers whatever else runs, also
// after it was interrupted and resumed.
#pragma once

#include <array>
#include <cstdint>

namespace fathom {

// Philox4x32-10 (Salmon, Moraes, Dror, Shaw: Parallel random numbers, as easy as 1, 2, 3; SC 2011).
[[nodiscard]] std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) noexcept;

// Uniform in [0, 1), of 53 random bits.
[[nodiscard]] double uniform_at(uint64_t seed, uint64_t position) noexcept;

}  // namespace fathom
