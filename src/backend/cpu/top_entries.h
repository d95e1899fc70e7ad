// The best k of a stream of scored entries: a buffer of candidates that is cut back to the best k when it is full. The
// order is total (equal scores: the lower entry wins), so the result does not depend on how the stream was divided.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <functional>
#include <vector>

namespace fathom::cpu {

class TopEntries {
 public:
  explicit TopEntries(int k) : k_(static_cast<size_t>(k)), capacity_(4 * k_ + 64) { candidates_.reserve(capacity_); }

  void clear() {
    candidates_.clear();
    threshold_ = 0;
  }

  // Entries first, first + 1, ... with their scores.
  void add(int first, const float* scores, int n) {
    for (int i = 0; i < n; ++i) {
      push(rank(scores[i], first + i));
    }
  }
  void add(const TopEntries& other) {
    for (const uint64_t candidate : other.candidates_) {
      push(candidate);
    }
  }

  // The best k, ascending, into out[k]; -1 where there are fewer. What was added is used up.
  void take(int32_t* out) {
    cut();
    std::transform(candidates_.begin(), candidates_.end(), out,
                   [](uint64_t candidate) { return static_cast<int32_t>(~static_cast<uint32_t>(candidate)); });
    std::sort(out, out + candidates_.size());
    std::fill(out + candidates_.size(), out + k_, -1);
    clear();
  }

 private:
  // Greater is better: the score's bits so that they compare as it does, then the entry, lower first.
  static uint64_t rank(float score, int entry) {
    const auto bits = std::bit_cast<uint32_t>(score + 0.0F);  // -0 equals 0
    const uint32_t ordered = (bits & 0x80000000U) != 0 ? ~bits : bits | 0x80000000U;
    return static_cast<uint64_t>(ordered) << 32 | ~static_cast<uint32_t>(entry);
  }

  void push(uint64_t candidate) {
    if (candidate <= threshold_) {
      return;
    }
    candidates_.push_back(candidate);
    if (candidates_.size() == capacity_) {
      cut();
    }
  }

  void cut() {
    if (candidates_.size() <= k_) {
      return;
    }
    const auto kth = candidates_.begin() + static_cast<ptrdiff_t>(k_) - 1;
    std::nth_element(candidates_.begin(), kth, candidates_.end(), std::greater<>());
    threshold_ = *kth;
    candidates_.resize(k_);
  }

  size_t k_;
  size_t capacity_;
  uint64_t threshold_ = 0;  // what is not above it cannot be among the best
  std::vector<uint64_t> candidates_;
};

}  // namespace fathom::cpu
