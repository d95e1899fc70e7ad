// Manifold-constrained hyper-connections (docs/model.md 3), and norms.
#include <algorithm>
#include <array>
#include <cmath>

#include "backend/cpu/cpu_ops.h"
#include "backend/cpu/split.h"
#include "backend/cpu/uploaded.h"

namespace fathom::cpu {
namespace {

double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }

// c [n][n]: rows, then columns, `iterations` times; the first row step is a softmax, and the last step is a column
// step.
void sinkhorn(double* c, int n, int iterations, double eps) {
  const auto normalise = [&](double* first, int step) {
    double sum = eps;
    for (int i = 0; i < n; ++i) {
      sum += first[i * step];
    }
    for (int i = 0; i < n; ++i) {
      first[i * step] /= sum;
    }
  };
  for (int j = 0; j < n; ++j) {
    double* row = c + static_cast<ptrdiff_t>(j) * n;
    const double max = *std::max_element(row, row + n);
    double sum = 0.0;
    for (int k = 0; k < n; ++k) {
      row[k] = std::exp(row[k] - max);
      sum += row[k];
    }
    for (int k = 0; k < n; ++k) {
      row[k] = row[k] / sum + eps;
    }
  }
  for (int it = 0; it < iterations; ++it) {
    for (int j = 0; it > 0 && j < n; ++j) {
      normalise(c + static_cast<ptrdiff_t>(j) * n, 1);
    }
    for (int k = 0; k < n; ++k) {
      normalise(c + k, n);
    }
  }
}

}  // namespace

// y = RMSNorm(sum_j pre_j X_j)
void CpuOps::collapse_row(const float* streams, const float* pre, const Weight& norm, float* y) const {
  kernels_.rows->collapse(streams, config_.hc, config_.hidden, pre, y);
  kernels_.rows->rms_norm(y, config_.hidden, vector_values(norm), config_.rms_eps, y);
}

double CpuOps::streams_scale(const float* streams) const {
  const int n = config_.hc * config_.hidden;
  const auto sum = static_cast<double>(kernels_.rows->sum_squares(streams, n));
  return 1.0 / std::sqrt(sum / n + static_cast<double>(config_.rms_eps));
}

// Pieces of a few outputs for few rows, of many rows for many.
void CpuOps::mix_product(const Weight& w, DeviceMat<const float> x, DeviceMat<float> y) {
  constexpr int kRows = 12;
  const int outputs = x.rows() == 1 ? 4 : 8;
  const int row_parts = (x.rows() + kRows - 1) / kRows;
  const int out_parts = (w.out_dim + outputs - 1) / outputs;
  const size_t weight_bytes = static_cast<size_t>(w.out_dim) * static_cast<size_t>(w.in_dim) * sizeof(float);
  split(static_cast<int64_t>(row_parts) * out_parts, weight_bytes * static_cast<size_t>(row_parts),
        [&](Range range, int) {
          for (int64_t piece = range.first; piece < range.last; ++piece) {
            const int r = static_cast<int>(piece / out_parts) * kRows;
            const int o = static_cast<int>(piece % out_parts) * outputs;
            kernels_.rows->mix(vector_values(w) + static_cast<ptrdiff_t>(o) * w.in_dim,
                               std::min(outputs, w.out_dim - o), w.in_dim, x.device_ptr() + r * x.ld(), x.ld(),
                               std::min(kRows, x.rows() - r), y.device_ptr() + r * y.ld() + o, y.ld());
          }
        });
}

void CpuOps::hc_enter(const HcWeights& hc, const Weight& norm, DeviceMat<const float> streams, HcMix mix,
                      DeviceMat<float> x) {
  const int n = config_.hc;
  const auto eps = static_cast<double>(config_.hc_eps);
  const float* base = vector_values(hc.base);
  const float* scale = vector_values(hc.scale);
  const DeviceMat<float> logits = mix_scratch_.slice_rows(0, streams.rows());
  mix_product(hc.fn, streams, logits);

  split(streams.rows(), matrix_bytes(streams), [&](Range range, int) {
    std::array<float, kMaxStreams> pre{};
    std::array<double, kMaxStreams * kMaxStreams> comb{};
    for (auto r = static_cast<ptrdiff_t>(range.first); r < range.last; ++r) {
      const float* z = streams.device_ptr() + r * streams.ld();
      const float* m = logits.device_ptr() + r * logits.ld();
      const double rms = streams_scale(z);
      const auto coefficient = [&](int t, int part) {
        return static_cast<double>(m[t]) * rms * static_cast<double>(scale[part]) + static_cast<double>(base[t]);
      };
      float* post = mix.post.device_ptr() + r * mix.post.ld();
      for (int j = 0; j < n; ++j) {
        pre[static_cast<size_t>(j)] = static_cast<float>(sigmoid(coefficient(j, 0)) + eps);
        post[j] = static_cast<float>(2.0 * sigmoid(coefficient(n + j, 1)));
      }
      for (int t = 0; t < n * n; ++t) {
        comb[static_cast<size_t>(t)] = coefficient(2 * n + t, 2);
      }
      sinkhorn(comb.data(), n, config_.sinkhorn_iterations, eps);
      std::transform(comb.data(), comb.data() + static_cast<ptrdiff_t>(n) * n,
                     mix.comb.device_ptr() + r * mix.comb.ld(), [](double v) { return static_cast<float>(v); });
      collapse_row(z, pre.data(), norm, x.device_ptr() + r * x.ld());
    }
  });
}

void CpuOps::hc_exit(DeviceMat<const float> y, const HcMix& mix, DeviceMat<float> streams) {
  const int d = config_.hidden;
  const int parts = streams.rows() < pool_.threads() ? pool_.threads() : 1;
  split(static_cast<int64_t>(streams.rows()) * parts, 2 * matrix_bytes(streams), [&](Range range, int) {
    for (int64_t piece = range.first; piece < range.last; ++piece) {
      const auto r = static_cast<ptrdiff_t>(piece / parts);
      const Range columns = partition(d, parts, static_cast<int>(piece % parts));
      kernels_.rows->expand(streams.device_ptr() + r * streams.ld(), config_.hc, d, static_cast<int>(columns.first),
                            static_cast<int>(columns.last), mix.post.device_ptr() + r * mix.post.ld(),
                            mix.comb.device_ptr() + r * mix.comb.ld(), y.device_ptr() + r * y.ld());
    }
  });
}

void CpuOps::hc_collapse(const HcWeights& hc, const Weight& norm, DeviceMat<const float> streams, DeviceMat<float> x) {
  const auto scale = static_cast<double>(vector_values(hc.scale)[0]);
  const float* base = vector_values(hc.base);
  const std::span<const int32_t> rows = plan_.batch().logit_rows;
  const DeviceMat<float> logits = mix_scratch_;
  // One product for every run of consecutive rows.
  for (size_t first = 0; first < rows.size();) {
    size_t last = first + 1;
    while (last < rows.size() && rows[last] == rows[last - 1] + 1) {
      ++last;
    }
    const int n = static_cast<int>(last - first);
    mix_product(hc.fn, streams.slice_rows(rows[first], n), logits.slice_rows(static_cast<int>(first), n));
    first = last;
  }

  split(static_cast<int64_t>(rows.size()), rows.size() * static_cast<size_t>(streams.cols()) * sizeof(float),
        [&](Range range, int) {
          std::array<float, kMaxStreams> pre{};
          for (auto i = static_cast<ptrdiff_t>(range.first); i < range.last; ++i) {
            const float* z = streams.device_ptr() + rows[static_cast<size_t>(i)] * streams.ld();
            const float* m = logits.device_ptr() + i * logits.ld();
            const double rms = streams_scale(z);
            for (int j = 0; j < config_.hc; ++j) {
              pre[static_cast<size_t>(j)] =
                  static_cast<float>(sigmoid(static_cast<double>(m[j]) * rms * scale + static_cast<double>(base[j])) +
                                     static_cast<double>(config_.hc_eps));
            }
            collapse_row(z, pre.data(), norm, x.device_ptr() + i * x.ld());
          }
        });
}

void CpuOps::rms_norm(const Weight& gain, DeviceMat<const float> x, DeviceMat<float> y) {
  split(x.rows(), matrix_bytes(x), [&](Range range, int) {
    for (auto r = static_cast<ptrdiff_t>(range.first); r < range.last; ++r) {
      kernels_.rows->rms_norm(x.device_ptr() + r * x.ld(), x.cols(), vector_values(gain), config_.rms_eps,
                              y.device_ptr() + r * y.ld());
    }
  });
}

}  // namespace fathom::cpu
