#include "backend/cuda/step_staging.h"

#include <algorithm>

#include "backend/cuda/check.h"

namespace fathom::cuda {
namespace {

// Order of the arrays in a layout; the addresses of blocks come last, so that only used ones are copied.
enum Array { kTokens, kRowSequence, kRowPosition, kLogitRows, kStarts, kFirstRows, kRowCounts, kTableOffsets, kArrays };

size_t int_offset(int array, int rows) { return static_cast<size_t>(array) * static_cast<size_t>(rows) * 4; }
size_t slot_offset(int rows) { return int_offset(kArrays, rows); }
size_t block_offset(int rows) { return slot_offset(rows) + static_cast<size_t>(rows) * sizeof(std::byte*); }

}  // namespace

StepStaging::StepStaging(Device& device, int max_rows, int rope_dim) : device_(device) {
  rotation_count_ = static_cast<size_t>(max_rows) * static_cast<size_t>(rope_dim / 2);
  rotations_ = DeviceBuffer(device, 2 * rotation_count_ * sizeof(float2), "rotations");
  constexpr size_t kBlocks = 16384;
  make_layout(few_, std::min(max_rows, kFewRows), kBlocks);
  make_layout(many_, max_rows, kBlocks);
  current_ = &few_;
}

void StepStaging::make_layout(Layout& layout, int rows, size_t n_blocks) {
  layout.rows = (rows + 1) / 2 * 2;  // keeps the addresses aligned
  layout.n_blocks = n_blocks;
  const size_t bytes = block_offset(layout.rows) + n_blocks * sizeof(std::byte*);
  layout.host = PinnedBuffer(device_, bytes);
  layout.device = DeviceBuffer(device_, bytes, "the rows of a step");
  const auto ints = [&](int array) {
    return reinterpret_cast<const int32_t*>(layout.device.data() + int_offset(array, layout.rows));
  };
  layout.view = {.tokens = ints(kTokens),
                 .row_sequence = ints(kRowSequence),
                 .row_position = ints(kRowPosition),
                 .logit_rows = ints(kLogitRows),
                 .starts = ints(kStarts),
                 .first_rows = ints(kFirstRows),
                 .row_counts = ints(kRowCounts),
                 .table_offsets = ints(kTableOffsets),
                 .slots = reinterpret_cast<std::byte* const*>(layout.device.data() + slot_offset(layout.rows)),
                 .blocks = reinterpret_cast<std::byte* const*>(layout.device.data() + block_offset(layout.rows)),
                 .plain_rotations = plain_rotations(),
                 .compressed_rotations = compressed_rotations()};
}

void StepStaging::stage(const StepBatch& batch, const std::vector<std::byte*>& slots,
                        const std::vector<std::byte*>& blocks, cudaStream_t stream) {
  current_ = batch.rows() <= few_.rows ? &few_ : &many_;
  size_t n_blocks = 0;
  for (const SequenceSlice& s : batch.sequences) {
    n_blocks += s.blocks.size();
  }
  if (n_blocks > current_->n_blocks) {
    make_layout(*current_, current_->rows, std::max(n_blocks, 2 * current_->n_blocks));
    ++generation_;
  }
  std::byte* base = current_->host.data();
  const auto ints = [&](int array) { return reinterpret_cast<int32_t*>(base + int_offset(array, current_->rows)); };
  std::copy(batch.tokens.begin(), batch.tokens.end(), ints(kTokens));
  std::copy(batch.logit_rows.begin(), batch.logit_rows.end(), ints(kLogitRows));
  auto** slot = reinterpret_cast<std::byte**>(base + slot_offset(current_->rows));
  auto** block = reinterpret_cast<std::byte**>(base + block_offset(current_->rows));
  int table = 0;
  for (int i = 0; const SequenceSlice& s : batch.sequences) {
    for (int r = 0; r < s.n_rows; ++r) {
      ints(kRowSequence)[s.first_row + r] = i;
      ints(kRowPosition)[s.first_row + r] = s.start + r;
    }
    ints(kStarts)[i] = s.start;
    ints(kFirstRows)[i] = s.first_row;
    ints(kRowCounts)[i] = s.n_rows;
    ints(kTableOffsets)[i] = table;
    slot[i] = slots[static_cast<size_t>(s.slot)];
    for (const int32_t id : s.blocks) {
      block[table++] = blocks[static_cast<size_t>(id)];
    }
    ++i;
  }
  const size_t bytes = block_offset(current_->rows) + n_blocks * sizeof(std::byte*);
  CUDA_CHECK(cudaMemcpyAsync(current_->device.data(), base, bytes, cudaMemcpyHostToDevice, stream));
}

}  // namespace fathom::cuda
