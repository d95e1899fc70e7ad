// Arithmetic shared by the reference ops: double inside, float32 at the seams.
#pragma once

#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "backend/rope.h"
#include "core/weight.h"

namespace fathom::reference {

// Widened values of an uploaded weight, [count, out, in].
[[nodiscard]] inline const float* values(const Weight& w, int slice = 0) {
  return static_cast<const std::vector<float>*>(w.prepared)->data() +
         static_cast<size_t>(slice) * static_cast<size_t>(w.out_dim) * static_cast<size_t>(w.in_dim);
}
[[nodiscard]] inline const float* row_values(const Weight& w, int slice, int row) {
  return values(w, slice) + static_cast<size_t>(row) * static_cast<size_t>(w.in_dim);
}
[[nodiscard]] inline const int32_t* id_row(const Weight& w, int row) {
  return static_cast<const std::vector<int32_t>*>(w.prepared)->data() +
         static_cast<size_t>(row) * static_cast<size_t>(w.in_dim);
}

// Sum of a[i] * b[i]. Eight partial sums in a fixed pattern, so that the compiler may use vectors without reordering.
[[nodiscard]] inline double dot(const float* a, const float* b, int n) {
  constexpr int kLanes = 8;
  double part[kLanes] = {};
  int i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int l = 0; l < kLanes; ++l) {
      part[l] += static_cast<double>(a[i + l]) * static_cast<double>(b[i + l]);
    }
  }
  double sum = ((part[0] + part[4]) + (part[2] + part[6])) + ((part[1] + part[5]) + (part[3] + part[7]));
  for (; i < n; ++i) {
    sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  }
  return sum;
}

[[nodiscard]] inline double inverse_rms(std::span<const float> x, float eps) {
  const int n = static_cast<int>(x.size());
  return 1.0 / std::sqrt(dot(x.data(), x.data(), n) / n + static_cast<double>(eps));
}

// y = gain * x / rms(x); y may be x.
inline void rms_norm_row(std::span<const float> x, const float* gain, float eps, float* y) {
  const double r = inverse_rms(x, eps);
  for (size_t i = 0; i < x.size(); ++i) {
    y[i] = static_cast<float>(static_cast<double>(x[i]) * r * static_cast<double>(gain[i]));
  }
}

[[nodiscard]] inline double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }

// Rotates the last 2 * frequencies.size() components as interleaved pairs; `direction` -1 undoes +1.
inline void rotate_tail(std::span<float> v, int position, std::span<const float> frequencies, int direction) {
  float* tail = v.data() + v.size() - 2 * frequencies.size();
  for (size_t i = 0; i < frequencies.size(); ++i) {
    const Rotation r = rope_rotation(position, frequencies[i]);
    const double c = static_cast<double>(r.cos);
    const double s = static_cast<double>(r.sin) * direction;
    const double a = static_cast<double>(tail[2 * i]);
    const double b = static_cast<double>(tail[2 * i + 1]);
    tail[2 * i] = static_cast<float>(a * c - b * s);
    tail[2 * i + 1] = static_cast<float>(a * s + b * c);
  }
}

}  // namespace fathom::reference
