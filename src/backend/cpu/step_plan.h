// What the ops of one step need to know about its rows: made by begin_step, shared by all layers. Owns its memory,
// sized once.
#pragma once

#include <span>
#include <vector>

#include "backend/step_batch.h"
#include "core/model_config.h"
#include "core/thread_pool.h"

namespace fathom::cpu {

// cos and sin of one position for the vectors of RowKernels::rotate, rope_dim each.
struct RopeRow {
  const float* cos = nullptr;
  const float* sin = nullptr;
};

// The row of `position`, in `out` [2 * rope_dim].
RopeRow make_rope_row(std::span<const float> frequencies, int position, float* out);

class StepPlan {
 public:
  struct Row {
    int sequence = 0;
    int position = 0;
  };
  // Consecutive rows of one sequence that go through attention together.
  struct Tile {
    int sequence = 0;
    int first_row = 0;  // in the step
    int n_rows = 0;
  };
  static constexpr int kTileRows = 4;

  StepPlan(const ModelConfig& config, int max_rows);

  void make(const StepBatch& batch, ThreadPool& pool);

  [[nodiscard]] const StepBatch& batch() const { return batch_; }
  [[nodiscard]] int rows() const { return batch_.rows(); }
  [[nodiscard]] const Row& row(int r) const { return rows_[static_cast<size_t>(r)]; }
  [[nodiscard]] std::span<const Tile> tiles() const { return tiles_; }
  [[nodiscard]] const SequenceSlice& sequence(int i) const { return batch_.sequences[static_cast<size_t>(i)]; }

  [[nodiscard]] std::span<const float> frequencies(bool compressed) const {
    return compressed ? compressed_frequencies_ : plain_frequencies_;
  }
  [[nodiscard]] RopeRow rope(bool compressed, int r) const {
    const float* row = (compressed ? compressed_rope_ : plain_rope_).data() + static_cast<size_t>(r) * 2 * rope_dim_;
    return {row, row + rope_dim_};
  }

 private:
  size_t rope_dim_;
  std::vector<float> plain_frequencies_;
  std::vector<float> compressed_frequencies_;
  StepBatch batch_;
  std::vector<Row> rows_;
  std::vector<Tile> tiles_;
  std::vector<float> plain_rope_;  // [max_rows][cos | sin]
  std::vector<float> compressed_rope_;
};

}  // namespace fathom::cpu
