// The table of an instruction set for what happens to single rows: norms, rotations, hyper-connections, pooling and the
// rounding of cache rows. As attention_kernels.h: pure, without allocation, the same bits in every table.
#pragma once

#include <cstddef>
#include <cstdint>

namespace fathom::cpu {

inline constexpr int kMaxStreams = 8;
inline constexpr int kMaxPooled = 128;  // tokens in one compressed entry

// What one pooled token contributes: width values and gates.
struct PooledToken {
  const float* value = nullptr;
  const float* gate = nullptr;
  const float* bias = nullptr;  // added to the gate; null when the gate has it
};

struct RowKernels {
  // y = x / rms(x), times gain unless that is null; y may be x.
  void (*rms_norm)(const float* x, int n, const float* gain, float eps, float* y) noexcept;
  // Rotates n interleaved values. cos and sin are given per value, the sin of each first partner negated; `direction`
  // -1 undoes 1.
  void (*rotate)(float* x, int n, const float* cos, const float* sin, float direction) noexcept;
  // y = factor x; y may be x.
  void (*scale)(const float* x, int n, float factor, float* y) noexcept;
  float (*sum_squares)(const float* x, int n) noexcept;

  // y[r][o] = w[o] . x[r], sums in float32 by lanes and blocks of columns. w is [n_out][n].
  void (*mix)(const float* w, int n_out, int n, const float* x, ptrdiff_t x_ld, int n_rows, float* y,
              ptrdiff_t y_ld) noexcept;
  // y_i = sum over streams of pre_j streams[j][i].
  void (*collapse)(const float* streams, int n_streams, int n, const float* pre, float* y) noexcept;
  // streams[k][i] = post_k y_i + sum over j of comb[j][k] streams[j][i] for i in [first, last).
  void (*expand)(float* streams, int n_streams, int n, int first, int last, const float* post, const float* comb,
                 const float* y) noexcept;
  // out_i = sum over tokens of softmax(gate_i) value_i.
  void (*pool)(const PooledToken* tokens, int n_tokens, int width, float* out) noexcept;

  // Bit for bit what core/activation_sim.h and core/packed_rows.h do.
  void (*round_fp8)(float* x, int n) noexcept;
  void (*round_bf16)(float* x, int n) noexcept;
  void (*pack_kv)(const float* row, int nope, int rope, std::byte* out) noexcept;
  void (*hadamard)(float* x, int n) noexcept;  // n a power of two
  void (*round_fp4)(float* x, int n) noexcept;
};

extern const RowKernels kRowScalar;
extern const RowKernels kRowAvx2;
extern const RowKernels kRowAvx512;

}  // namespace fathom::cpu
