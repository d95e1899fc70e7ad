// Row kernels over the vectors of the vec_*.h that is included before.
#pragma once

#include "backend/cpu/isa/formats_impl.h"
#include "backend/cpu/isa/vec_math.h"
#include "backend/cpu/row_kernels.h"

namespace fathom::cpu {
namespace {

float sum_squares(const float* x, int n) noexcept {
  F32 part[4] = {set1(0.0F), set1(0.0F), set1(0.0F), set1(0.0F)};
  int i = 0;
  for (; i + 64 <= n; i += 64) {
    for (int j = 0; j < 4; ++j) {
      const F32 v = load(x + i + 16 * j);
      part[j] = fma(v, v, part[j]);
    }
  }
  for_each_vector(n - i, [&](int at, int lanes) {
    const F32 v = load(x + i + at, lanes);
    part[0] = fma(v, v, part[0]);
  });
  return sum_lanes((part[0] + part[1]) + (part[2] + part[3]));
}

void scale(const float* x, int n, float factor, float* y) noexcept {
  for_each_vector(n, [&](int i, int lanes) { store(y + i, load(x + i, lanes) * set1(factor), lanes); });
}

void rms_norm(const float* x, int n, const float* gain, float eps, float* y) noexcept {
  const float mean = sum_squares(x, n) / static_cast<float>(n);
  const float factor = 1.0F / first_lane(square_root(set1(mean + eps)));
  if (gain == nullptr) {
    scale(x, n, factor, y);
    return;
  }
  for_each_vector(
      n, [&](int i, int lanes) { store(y + i, load(x + i, lanes) * set1(factor) * load(gain + i, lanes), lanes); });
}

void rotate(float* x, int n, const float* cos, const float* sin, float direction) noexcept {
  for_each_vector(n, [&](int i, int lanes) {
    const F32 v = load(x + i, lanes);
    const F32 turned = swap<1>(v) * (load(sin + i, lanes) * set1(direction));
    store(x + i, fma(v, load(cos + i, lanes), turned), lanes);
  });
}

// --- Mixes -----------------------------------------------------------------------------------------------------------

constexpr int kMixColumns = 512;  // summed before they are added to the rest

template <int kRows, int kOuts>
inline void mix_tile(const float* w, int n, const float* x, ptrdiff_t x_ld, float* y, ptrdiff_t y_ld) {
  F32 total[kRows][kOuts];
  for (int r = 0; r < kRows; ++r) {
    for (int o = 0; o < kOuts; ++o) {
      total[r][o] = set1(0.0F);
    }
  }
  for (int first = 0; first < n; first += kMixColumns) {
    const int count = n - first < kMixColumns ? n - first : kMixColumns;
    F32 part[kRows][kOuts];
    for (int r = 0; r < kRows; ++r) {
      for (int o = 0; o < kOuts; ++o) {
        part[r][o] = set1(0.0F);
      }
    }
    for_each_vector(count, [&](int i, int lanes) {
      F32 in[kRows];
      for (int r = 0; r < kRows; ++r) {
        in[r] = load(x + r * x_ld + first + i, lanes);
      }
      for (int o = 0; o < kOuts; ++o) {
        const F32 weight = load(w + static_cast<ptrdiff_t>(o) * n + first + i, lanes);
        for (int r = 0; r < kRows; ++r) {
          part[r][o] = fma(weight, in[r], part[r][o]);
        }
      }
    });
    for (int r = 0; r < kRows; ++r) {
      for (int o = 0; o < kOuts; ++o) {
        total[r][o] = total[r][o] + part[r][o];
      }
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int o = 0; o < kOuts; ++o) {
      y[r * y_ld + o] = sum_lanes(total[r][o]);
    }
  }
}

template <int kRows>
inline void mix_rows(const float* w, int n_out, int n, const float* x, ptrdiff_t x_ld, float* y, ptrdiff_t y_ld) {
  int o = 0;
  for (; o + kMixOuts <= n_out; o += kMixOuts) {
    mix_tile<kRows, kMixOuts>(w + static_cast<ptrdiff_t>(o) * n, n, x, x_ld, y + o, y_ld);
  }
  for (; o + 4 <= n_out; o += 4) {
    mix_tile<kRows, 4>(w + static_cast<ptrdiff_t>(o) * n, n, x, x_ld, y + o, y_ld);
  }
  for (; o < n_out; ++o) {
    mix_tile<kRows, 1>(w + static_cast<ptrdiff_t>(o) * n, n, x, x_ld, y + o, y_ld);
  }
}

void mix(const float* w, int n_out, int n, const float* x, ptrdiff_t x_ld, int n_rows, float* y,
         ptrdiff_t y_ld) noexcept {
  int r = 0;
  for (; r + kMixRows <= n_rows; r += kMixRows) {
    mix_rows<kMixRows>(w, n_out, n, x + r * x_ld, x_ld, y + r * y_ld, y_ld);
  }
  for (; r < n_rows; ++r) {
    mix_rows<1>(w, n_out, n, x + r * x_ld, x_ld, y + r * y_ld, y_ld);
  }
}

// --- Hyper-connections ---------------------------------------------------------------------------------------------

void collapse(const float* streams, int n_streams, int n, const float* pre, float* y) noexcept {
  for_each_vector(n, [&](int i, int lanes) {
    F32 sum = set1(0.0F);
    for (int j = 0; j < n_streams; ++j) {
      sum = fma(set1(pre[j]), load(streams + static_cast<ptrdiff_t>(j) * n + i, lanes), sum);
    }
    store(y + i, sum, lanes);
  });
}

template <int kStreams>
inline void expand_streams(float* streams, int n_streams, int n, int first, int last, const float* post,
                           const float* comb, const float* y) {
  for_each_vector(last - first, [&](int offset, int lanes) {
    const int i = first + offset;
    const F32 out = load(y + i, lanes);
    F32 old[kStreams];
    for (int j = 0; j < n_streams; ++j) {
      old[j] = load(streams + static_cast<ptrdiff_t>(j) * n + i, lanes);
    }
    for (int k = 0; k < n_streams; ++k) {
      F32 sum = set1(post[k]) * out;
      for (int j = 0; j < n_streams; ++j) {
        sum = fma(set1(comb[j * n_streams + k]), old[j], sum);
      }
      store(streams + static_cast<ptrdiff_t>(k) * n + i, sum, lanes);
    }
  });
}

void expand(float* streams, int n_streams, int n, int first, int last, const float* post, const float* comb,
            const float* y) noexcept {
  if (n_streams == 4) {
    expand_streams<4>(streams, 4, n, first, last, post, comb, y);
  } else {
    expand_streams<kMaxStreams>(streams, n_streams, n, first, last, post, comb, y);
  }
}

// --- Compressor ----------------------------------------------------------------------------------------------------

inline F32 biased_gate(const PooledToken& token, int i, int lanes) {
  const F32 gate = load(token.gate + i, lanes);
  return token.bias == nullptr ? gate : gate + load(token.bias + i, lanes);
}

void pool(const PooledToken* tokens, int n_tokens, int width, float* out) noexcept {
  for_each_vector(width, [&](int i, int lanes) {
    F32 largest = biased_gate(tokens[0], i, lanes);
    for (int t = 1; t < n_tokens; ++t) {
      largest = max(largest, biased_gate(tokens[t], i, lanes));
    }
    F32 total = set1(0.0F);
    F32 pooled = set1(0.0F);
    for (int t = 0; t < n_tokens; ++t) {
      const F32 weight = exponential(biased_gate(tokens[t], i, lanes) - largest);
      total = total + weight;
      pooled = fma(weight, load(tokens[t].value + i, lanes), pooled);
    }
    store(out + i, pooled / total, lanes);
  });
}

// --- Cache rows ----------------------------------------------------------------------------------------------------

// Calls group(first, n, E8M0 code) for each group of FP8 values.
template <class Group>
inline void for_each_fp8_group(const float* x, int n, Group group) {
  for (int first = 0; first < n; first += kFp8Values) {
    const int count = n - first < kFp8Values ? n - first : kFp8Values;
    group(first, count, fp8_scale(x + first, count));
  }
}

void round_fp8(float* x, int n) noexcept {
  for_each_fp8_group(x, n, [&](int first, int count, uint8_t code) {
    const F32 scale = set1(scale_value(code));
    for_each_vector(count, [&](int i, int lanes) {
      const F32 t = load(x + first + i, lanes) / scale;
      const I32 magnitude = e4m3_magnitude(bits(t) & set1(kMagnitude));
      store(x + first + i, from_bits(magnitude | (bits(t) & set1(kSignBit))) * scale, lanes);
    });
  });
}

// To nearest, ties to even. A NaN keeps its upper bits and becomes quiet.
inline I32 bf16_code(F32 x) {
  const I32 b = bits(x);
  const I32 odd = shift_right<16>(b) & set1(1);
  const I32 rounded = shift_right<16>(b + set1(0x7FFF) + odd);
  const I32 nan = shift_right<16>(b | set1(0x00400000));
  return select_less(set1(0x7F800000), b & set1(kMagnitude), nan, rounded);
}

void round_bf16(float* x, int n) noexcept {
  for_each_vector(
      n, [&](int i, int lanes) { store(x + i, from_bits(shift_left<16>(bf16_code(load(x + i, lanes)))), lanes); });
}

void pack_kv(const float* row, int nope, int rope, std::byte* out) noexcept {
  std::byte* scales = out + nope;
  for_each_fp8_group(row, nope, [&](int first, int count, uint8_t code) {
    scales[first / kFp8Values] = std::byte{code};
    const F32 scale = set1(scale_value(code));
    for_each_vector(count, [&](int i, int lanes) {
      const F32 t = load(row + first + i, lanes) / scale;
      const I32 magnitude = e4m3_magnitude(bits(t) & set1(kMagnitude));
      const I32 codes = e4m3_code(magnitude, bits(t) & set1(kSignBit));
      store_u8(out + first + i, code == kNanScale ? set1(0x7F) : codes, lanes);
    });
  });
  std::byte* tail = scales + (nope + kFp8Values - 1) / kFp8Values;
  for_each_vector(rope,
                  [&](int i, int lanes) { store_u16(tail + 2 * i, bf16_code(load(row + nope + i, lanes)), lanes); });
}

void round_fp4(float* x, int n) noexcept {
  for (int first = 0; first < n; first += kFp4Values) {
    const int count = n - first < kFp4Values ? n - first : kFp4Values;
    const F32 scale = set1(scale_value(fp4_scale(x + first, count)));
    for_each_vector(count, [&](int i, int lanes) {
      const F32 t = load(x + first + i, lanes) / scale;
      const I32 magnitude = e2m1_magnitude(bits(t) & set1(kMagnitude));
      store(x + first + i, from_bits(magnitude | (bits(t) & set1(kSignBit))) * scale, lanes);
    });
  }
}

// --- Hadamard ------------------------------------------------------------------------------------------------------

// One stage within a vector: lanes a and b = a + kDistance become a + b and a - b.
template <int kDistance>
inline F32 butterfly(F32 x) {
  alignas(64) constexpr float kSigns[16] = {1,
                                            (1 & kDistance) != 0 ? -1.0F : 1.0F,
                                            (2 & kDistance) != 0 ? -1.0F : 1.0F,
                                            (3 & kDistance) != 0 ? -1.0F : 1.0F,
                                            (4 & kDistance) != 0 ? -1.0F : 1.0F,
                                            (5 & kDistance) != 0 ? -1.0F : 1.0F,
                                            (6 & kDistance) != 0 ? -1.0F : 1.0F,
                                            (7 & kDistance) != 0 ? -1.0F : 1.0F,
                                            (8 & kDistance) != 0 ? -1.0F : 1.0F,
                                            (9 & kDistance) != 0 ? -1.0F : 1.0F,
                                            (10 & kDistance) != 0 ? -1.0F : 1.0F,
                                            (11 & kDistance) != 0 ? -1.0F : 1.0F,
                                            (12 & kDistance) != 0 ? -1.0F : 1.0F,
                                            (13 & kDistance) != 0 ? -1.0F : 1.0F,
                                            (14 & kDistance) != 0 ? -1.0F : 1.0F,
                                            (15 & kDistance) != 0 ? -1.0F : 1.0F};
  return swap<kDistance>(x) + x * load(kSigns);
}

void hadamard_small(float* x, int n) {
  for (int half = 1; half < n; half *= 2) {
    for (int i = 0; i < n; ++i) {
      if ((i & half) == 0) {
        const float a = x[i];
        const float b = x[i + half];
        x[i] = a + b;
        x[i + half] = a - b;
      }
    }
  }
}

void hadamard(float* x, int n) noexcept {
  if (n < 16) {
    hadamard_small(x, n);
  } else {
    for (int i = 0; i < n; i += 16) {
      store(x + i, butterfly<8>(butterfly<4>(butterfly<2>(butterfly<1>(load(x + i))))));
    }
    for (int half = 16; half < n; half *= 2) {
      for (int i = 0; i < n; i += 16) {
        if ((i & half) == 0) {
          const F32 a = load(x + i);
          const F32 b = load(x + i + half);
          store(x + i, a + b);
          store(x + i + half, a - b);
        }
      }
    }
  }
  const double root = __builtin_sqrt(static_cast<double>(n));
  scale(x, n, static_cast<float>(1.0 / root), x);
}

constexpr RowKernels kRowKernels = {rms_norm, rotate,    scale,      sum_squares, mix,      collapse, expand,
                                    pool,     round_fp8, round_bf16, pack_kv,     hadamard, round_fp4};

}  // namespace
}  // namespace fathom::cpu
