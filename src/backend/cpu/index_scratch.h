// A query of the indexer as its kernels take it, and what one thread needs beside it. Owns its memory, sized once.
#pragma once

#include "backend/cpu/attention_kernels.h"
#include "backend/cpu/top_entries.h"
#include "backend/cpu/zeroed.h"
#include "core/activation_sim.h"
#include "core/buffer.h"
#include "core/model_config.h"

namespace fathom::cpu {

class IndexScratch {
 public:
  static constexpr int kRun = 64;  // keys scored in one call

  explicit IndexScratch(const ModelConfig& config) : top(config.index_topk) {
    const int vectors = (config.index_heads + 15) / 16;
    const size_t lanes = static_cast<size_t>(vectors) * 16;
    const auto dim = static_cast<size_t>(config.index_dim);
    const size_t groups = dim / kFp4Group;
    weights_ = zeroed_buffer(lanes * sizeof(float));
    values_ = zeroed_buffer(lanes * dim * sizeof(float));
    codes_ = zeroed_buffer(lanes * dim);
    offsets_ = zeroed_buffer(lanes * groups * sizeof(int32_t));
    scales_ = zeroed_buffer(lanes * groups * sizeof(float));
    keys_ = zeroed_buffer(kMaxIndexKeys * dim);
    if (groups == 0) {
      unpacked_ = zeroed_buffer(kRun * dim * sizeof(float));
    }
    query = {.n_vectors = vectors,
             .dim = config.index_dim,
             .weights = weights_.as<float>().data(),
             .values = values_.as<float>().data(),
             .codes = codes_.as<int8_t>().data(),
             .offsets = offsets_.as<int32_t>().data(),
             .scales = scales_.as<float>().data()};
  }

  [[nodiscard]] uint8_t* keys() { return keys_.as<uint8_t>().data(); }

  // Packed rows as floats, where they are too short for the kernel of codes.
  [[nodiscard]] const std::byte* unpacked() const { return unpacked_.bytes().data(); }
  [[nodiscard]] float* unpacked_row(int i) {
    return unpacked_.as<float>().data() + static_cast<ptrdiff_t>(i) * query.dim;
  }

  IndexQuery query;
  TopEntries top;
  float scores[kRun] = {};

 private:
  HostBuffer weights_;
  HostBuffer values_;
  HostBuffer codes_;
  HostBuffer offsets_;
  HostBuffer scales_;
  HostBuffer keys_;
  HostBuffer unpacked_;
};

}  // namespace fathom::cpu
