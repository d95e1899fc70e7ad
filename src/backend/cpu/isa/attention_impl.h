// Attention and indexer kernels over the vectors of the vec_*.h that is included before.
#pragma once

#include "backend/cpu/attention_kernels.h"
#include "backend/cpu/isa/formats_impl.h"
#include "backend/cpu/isa/vec_math.h"

namespace fathom::cpu {
namespace {

// --- Attention -----------------------------------------------------------------------------------------------------

inline F32 score_keys(const AttendBlock& b, const float* q) {
  F32 dots[kKeyBlock];
  for (int k = 0; k < kKeyBlock; k += kKeyTile) {
    const float* keys = b.keys + k * b.key_ld;
    F32 part[kKeyTile];
    for (int j = 0; j < kKeyTile; ++j) {
      part[j] = set1(0.0F);
    }
    for (int d = 0; d < b.dim; d += 16) {
      const F32 x = load(q + d);
      for (int j = 0; j < kKeyTile; ++j) {
        part[j] = fma(load(keys + j * b.key_ld + d), x, part[j]);
      }
    }
    for (int j = 0; j < kKeyTile; ++j) {
      dots[k + j] = part[j];
    }
  }
  return sum_each(dots) * set1(b.scale);
}

// sum = sum * keep + the seen keys by weight, for kVectors vectors of dims.
template <int kVectors>
inline void add_keys(const AttendBlock& b, const float* weights, F32 keep, int d, float* sum) {
  F32 acc[kVectors];
  for (int i = 0; i < kVectors; ++i) {
    acc[i] = load(sum + d + 16 * i) * keep;
  }
  for (int k = b.first; k < b.last; ++k) {
    const F32 w = set1(weights[k]);
    const float* key = b.keys + k * b.key_ld + d;
    for (int i = 0; i < kVectors; ++i) {
      acc[i] = fma(w, load(key + 16 * i), acc[i]);
    }
  }
  for (int i = 0; i < kVectors; ++i) {
    store(sum + d + 16 * i, acc[i]);
  }
}

void attend_block(const AttendBlock& b) noexcept {
  for (int h = 0; h < b.n_heads; ++h) {
    const ptrdiff_t at = static_cast<ptrdiff_t>(h) * b.dim;
    const F32 scores = score_keys(b, b.q + at);
    const float block_max = max_lanes(select_lanes(b.first, b.last, scores, set1(b.max[h])));
    const float new_max = block_max > b.max[h] ? block_max : b.max[h];
    const F32 keep = exponential(set1(b.max[h] - new_max));
    const F32 weights = select_lanes(b.first, b.last, exponential(scores - set1(new_max)), set1(0.0F));
    b.max[h] = new_max;
    b.total[h] = first_lane(fma(set1(b.total[h]), keep, set1(sum_lanes(weights))));

    alignas(64) float weight[kKeyBlock];
    store(weight, weights);
    float* sum = b.sum + at;
    int d = 0;
    for (; d + 16 * kDimTile <= b.dim; d += 16 * kDimTile) {
      add_keys<kDimTile>(b, weight, keep, d, sum);
    }
    for (; d + 64 <= b.dim; d += 64) {
      add_keys<4>(b, weight, keep, d, sum);
    }
    for (; d < b.dim; d += 16) {
      add_keys<1>(b, weight, keep, d, sum);
    }
  }
}

void unpack_kv(const std::byte* row, int nope, int rope, float* out) noexcept {
  const int n_groups = (nope + kFp8Values - 1) / kFp8Values;
  for (int g = 0; g < n_groups; ++g) {
    const int first = g * kFp8Values;
    const int n = nope - first < kFp8Values ? nope - first : kFp8Values;
    const F32 scale = set1(scale_value(static_cast<uint8_t>(row[nope + g])));
    for_each_vector(n, [&](int i, int lanes) {
      store(out + first + i, e4m3_value(load_u8(row + first + i, lanes)) * scale, lanes);
    });
  }
  const std::byte* tail = row + nope + n_groups;
  for_each_vector(rope, [&](int i, int lanes) {
    store(out + nope + i, from_bits(shift_left<16>(load_u16(tail + 2 * i, lanes))), lanes);
  });
}

// --- Indexer -------------------------------------------------------------------------------------------------------

constexpr int kCodeBias = 12;  // makes doubled E2M1 codes unsigned
constexpr int8_t kBiasedCodes[16] = {12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0};

void set_index_values(const IndexQuery& query, int head, const float* values) noexcept {
  float* out = query.values + static_cast<ptrdiff_t>(head / 16) * query.dim * 16 + head % 16;
  for (int d = 0; d < query.dim; ++d) {
    out[16 * d] = values[d];
  }
}

void set_index_codes(const IndexQuery& query, int head, const float* values) noexcept {
  const int n_groups = query.dim / kFp4Values;
  const int lane = head % 16;
  for (int g = 0; g < n_groups; ++g) {
    const float* group = values + g * kFp4Values;
    const float scale = scale_value(fp4_scale(group, kFp4Values));
    alignas(32) int8_t doubled[kFp4Values];
    for (int i = 0; i < kFp4Values; i += 16) {
      store_u8(doubled + i, to_int(load(group + i) / set1(scale) * set1(2.0F)) & set1(0xFF), 16);
    }
    int32_t sum = 0;
    for (const int8_t code : doubled) {
      sum += code;
    }
    const ptrdiff_t at = (static_cast<ptrdiff_t>(head / 16) * n_groups + g) * 16;
    query.offsets[at + lane] = -kCodeBias * sum;
    query.scales[at + lane] = scale * 0.25F;
    int8_t* out = query.codes + at * kFp4Values + 4 * lane;
    for (int quad = 0; quad < kFp4Values / 4; ++quad) {
      __builtin_memcpy(out + quad * 64, doubled + 4 * quad, 4);
    }
  }
}

template <int kKeys>
inline void score_value_rows(const IndexQuery& query, const std::byte* rows, float* scores) {
  F32 total[kKeys];
  for (int k = 0; k < kKeys; ++k) {
    total[k] = set1(0.0F);
  }
  for (int v = 0; v < query.n_vectors; ++v) {
    const float* heads = query.values + static_cast<ptrdiff_t>(v) * query.dim * 16;
    F32 dot[kKeys];
    for (int k = 0; k < kKeys; ++k) {
      dot[k] = set1(0.0F);
    }
    for (int d = 0; d < query.dim; ++d) {
      const F32 x = load(heads + 16 * d);
      for (int k = 0; k < kKeys; ++k) {
        float key = 0.0F;
        __builtin_memcpy(&key, rows + 4 * (static_cast<ptrdiff_t>(k) * query.dim + d), sizeof key);
        dot[k] = fma(x, set1(key), dot[k]);
      }
    }
    const F32 weights = load(query.weights + 16 * v);
    for (int k = 0; k < kKeys; ++k) {
      total[k] = fma(weights, max(dot[k], set1(0.0F)), total[k]);
    }
  }
  for (int k = 0; k < kKeys; ++k) {
    scores[k] = sum_lanes(total[k]);
  }
}

void score_values(const IndexQuery& query, const std::byte* rows, int n, float* scores) noexcept {
  const ptrdiff_t row_bytes = 4 * static_cast<ptrdiff_t>(query.dim);
  int i = 0;
  for (; i + kIndexKeys <= n; i += kIndexKeys) {
    score_value_rows<kIndexKeys>(query, rows + i * row_bytes, scores + i);
  }
  for (; i < n; ++i) {
    score_value_rows<1>(query, rows + i * row_bytes, scores + i);
  }
}

// `keys`: the codes of kKeys rows, unsigned, dim each.
template <int kKeys>
inline void score_code_rows(const IndexQuery& query, const std::byte* rows, const uint8_t* keys, float* scores) {
  const int n_groups = query.dim / kFp4Values;
  const ptrdiff_t row_bytes = query.dim / 2 + n_groups;
  F32 total[kKeys];
  for (int k = 0; k < kKeys; ++k) {
    total[k] = set1(0.0F);
  }
  for (int v = 0; v < query.n_vectors; ++v) {
    F32 dot[kKeys];
    for (int k = 0; k < kKeys; ++k) {
      dot[k] = set1(0.0F);
    }
    for (int g = 0; g < n_groups; ++g) {
      const ptrdiff_t at = (static_cast<ptrdiff_t>(v) * n_groups + g) * 16;
      const int8_t* codes = query.codes + at * kFp4Values;
      I32 sum[kKeys];
      for (int k = 0; k < kKeys; ++k) {
        sum[k] = load(query.offsets + at);
      }
      for (int quad = 0; quad < kFp4Values / 4; ++quad) {
        for (int k = 0; k < kKeys; ++k) {
          int32_t four = 0;
          __builtin_memcpy(&four, keys + k * query.dim + g * kFp4Values + 4 * quad, sizeof four);
          sum[k] = dot4(sum[k], four, codes + quad * 64);
        }
      }
      const F32 scales = load(query.scales + at);
      for (int k = 0; k < kKeys; ++k) {
        const auto scale = static_cast<uint8_t>(rows[k * row_bytes + query.dim / 2 + g]);
        dot[k] = fma(to_float(sum[k]), scales * set1(scale_value(scale)), dot[k]);
      }
    }
    const F32 weights = load(query.weights + 16 * v);
    for (int k = 0; k < kKeys; ++k) {
      total[k] = fma(weights, max(dot[k], set1(0.0F)), total[k]);
    }
  }
  for (int k = 0; k < kKeys; ++k) {
    scores[k] = sum_lanes(total[k]);
  }
}

void score_codes(const IndexQuery& query, const std::byte* rows, int n, uint8_t* keys, float* scores) noexcept {
  const int n_groups = query.dim / kFp4Values;
  const ptrdiff_t row_bytes = query.dim / 2 + n_groups;
  for (int i = 0; i < n;) {
    const int count = n - i < kIndexKeys ? 1 : kIndexKeys;
    const std::byte* from = rows + i * row_bytes;
    for (int k = 0; k < count; ++k) {
      for (int g = 0; g < n_groups; ++g) {
        unpack_nibbles(from + k * row_bytes + g * (kFp4Values / 2), kBiasedCodes,
                       keys + k * query.dim + g * kFp4Values);
      }
    }
    if (count == kIndexKeys) {
      score_code_rows<kIndexKeys>(query, from, keys, scores + i);
    } else {
      score_code_rows<1>(query, from, keys, scores + i);
    }
    i += count;
  }
}

constexpr AttentionKernels kAttentionKernels = {attend_block, unpack_kv,   set_index_values, set_index_codes,
                                                score_values, score_codes, nullptr};

}  // namespace
}  // namespace fathom::cpu
