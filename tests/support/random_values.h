// Random float vectors for tests; a seed gives the same values in every run on one machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

namespace fathom::test {

inline std::vector<float> normal_values(size_t n, uint32_t seed, float sigma = 1.0F) {
  std::mt19937 rng(seed);
  std::normal_distribution<float> normal(0.0F, sigma);
  std::vector<float> x(n);
  for (float& v : x) {
    v = normal(rng);
  }
  return x;
}

}  // namespace fathom::test
