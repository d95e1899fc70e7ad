// What one thread of attention and the indexer works in. Owns its memory, sized once.
#pragma once

#include <cstdint>

#include "backend/cpu/attention_kernels.h"
#include "backend/cpu/step_plan.h"
#include "backend/cpu/zeroed.h"
#include "core/buffer.h"
#include "core/model_config.h"

namespace fathom::cpu {

[[nodiscard]] constexpr int padded_to_lanes(int n) { return (n + 15) / 16 * 16; }

class AttentionScratch {
 public:
  // `tiles`: for TileAttentionKernels.
  AttentionScratch(const ModelConfig& config, bool tiles)
      : head_ld_(padded_to_lanes(config.head_dim)),
        keys_(floats(kKeyBlock * head_ld_)),
        max_(floats(StepPlan::kTileRows * config.n_heads)),
        total_(floats(StepPlan::kTileRows * config.n_heads)) {
    if (tiles) {
      tile_keys_ = halves(kTileKeys * head_ld_);
      tile_pairs_ = halves(kTileKeys * head_ld_);
      tile_q_ = halves(StepPlan::kTileRows * config.n_heads * head_ld_ * 2);
    } else if (head_ld_ != config.head_dim) {
      q_ = floats(StepPlan::kTileRows * config.n_heads * head_ld_);
      sum_ = floats(StepPlan::kTileRows * config.n_heads * head_ld_);
    }
  }

  [[nodiscard]] int head_ld() const { return head_ld_; }
  [[nodiscard]] float* keys() { return keys_.as<float>().data(); }    // [kKeyBlock][head_ld]
  [[nodiscard]] float* max() { return max_.as<float>().data(); }      // [tile rows][heads]
  [[nodiscard]] float* total() { return total_.as<float>().data(); }  // [tile rows][heads]
  // Padded heads [tile rows][heads][head_ld], where head_dim is no multiple of 16.
  [[nodiscard]] float* q() { return q_.as<float>().data(); }
  [[nodiscard]] float* sum() { return sum_.as<float>().data(); }
  [[nodiscard]] uint16_t* tile_keys() { return tile_keys_.as<uint16_t>().data(); }
  [[nodiscard]] uint16_t* tile_pairs() { return tile_pairs_.as<uint16_t>().data(); }
  [[nodiscard]] uint16_t* tile_q() { return tile_q_.as<uint16_t>().data(); }  // [tile rows][heads][head_ld][2]

 private:
  static HostBuffer halves(int n) { return zeroed_buffer(static_cast<size_t>(n) * sizeof(uint16_t)); }
  static HostBuffer floats(int n) { return zeroed_buffer(static_cast<size_t>(n) * sizeof(float)); }

  int head_ld_;
  HostBuffer keys_;
  HostBuffer max_;
  HostBuffer total_;
  HostBuffer q_;
  HostBuffer sum_;
  HostBuffer tile_keys_;
  HostBuffer tile_pairs_;
  HostBuffer tile_q_;
};

}  // namespace fathom::cpu
