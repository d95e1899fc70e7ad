#include "sampling/random.h"

namespace fathom {
namespace {

constexpr uint32_t low_half(uint64_t x) { return static_cast<uint32_t>(x); }
constexpr uint32_t high_half(uint64_t x) { return static_cast<uint32_t>(x >> 32); }

}  // namespace

std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) noexcept {
  constexpr int kRounds = 10;
  for (int round = 0; round < kRounds; ++round) {
    const uint64_t a = uint64_t{0xD2511F53} * counter[0];
    const uint64_t b = uint64_t{0xCD9E8D57} * counter[2];
    counter = {high_half(b) ^ counter[1] ^ key[0], low_half(b), high_half(a) ^ counter[3] ^ key[1], low_half(a)};
    key[0] += 0x9E3779B9U;
    key[1] += 0xBB67AE85U;
  }
  return counter;
}

double uniform_at(uint64_t seed, uint64_t position) noexcept {
  const std::array<uint32_t, 4> word =
      philox4x32({low_half(position), high_half(position), 0, 0}, {low_half(seed), high_half(seed)});
  const uint64_t bits = (uint64_t{word[1]} << 32 | word[0]) >> 11;
  return static_cast<double>(bits) * 0x1p-53;
}

}  // namespace fathom
