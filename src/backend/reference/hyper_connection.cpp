// Embedding and manifold-constrained hyper-connections (docs/model.md 3).
#include <algorithm>

#include "backend/reference/math.h"
#include "backend/reference/reference_ops.h"

namespace fathom::reference {
namespace {

// m_t = (fn_t . z) / rms(z), for all rows of fn; z is the concatenation of the streams.
std::vector<double> mix_logits(const HcWeights& hc, std::span<const float> z, float eps) {
  const double r = inverse_rms(z, eps);
  std::vector<double> m(static_cast<size_t>(hc.fn.out_dim));
  for (int t = 0; t < hc.fn.out_dim; ++t) {
    m[static_cast<size_t>(t)] = dot(row_values(hc.fn, 0, t), z.data(), hc.fn.in_dim) * r;
  }
  return m;
}

// y_i = sum_j pre_j X_j[i]
void collapse(std::span<const double> pre, std::span<const float> streams, std::span<float> y) {
  const size_t d = y.size();
  for (size_t i = 0; i < d; ++i) {
    double sum = 0.0;
    for (size_t j = 0; j < pre.size(); ++j) {
      sum += pre[j] * static_cast<double>(streams[j * d + i]);
    }
    y[i] = static_cast<float>(sum);
  }
}

// Rows, then columns, `iterations` times; the first row step is a softmax, and the last step is a column step.
void sinkhorn(std::span<double> c, size_t n, int iterations, double eps) {
  const auto normalise = [&](size_t first, size_t step) {
    double sum = eps;
    for (size_t i = 0; i < n; ++i) {
      sum += c[first + i * step];
    }
    for (size_t i = 0; i < n; ++i) {
      c[first + i * step] /= sum;
    }
  };
  for (size_t j = 0; j < n; ++j) {
    const std::span<double> row = c.subspan(j * n, n);
    const double max = *std::max_element(row.begin(), row.end());
    double sum = 0.0;
    for (double& v : row) {
      v = std::exp(v - max);
      sum += v;
    }
    for (double& v : row) {
      v = v / sum + eps;
    }
  }
  for (int it = 0; it < iterations; ++it) {
    for (size_t j = 0; it > 0 && j < n; ++j) {
      normalise(j * n, 1);
    }
    for (size_t k = 0; k < n; ++k) {
      normalise(k, n);
    }
  }
}

}  // namespace

void ReferenceOps::embed(const Weight& table, DeviceMat<float> streams) {
  const size_t d = static_cast<size_t>(config_.hidden);
  for (int r = 0; r < streams.rows(); ++r) {
    const float* row = row_values(table, 0, batch_.tokens[static_cast<size_t>(r)]);
    float* out = streams.device_ptr() + r * streams.ld();
    for (int j = 0; j < config_.hc; ++j) {
      std::copy_n(row, d, out + static_cast<size_t>(j) * d);
    }
  }
}

void ReferenceOps::hc_enter(const HcWeights& hc, const Weight& norm, DeviceMat<const float> streams, HcMix mix,
                            DeviceMat<float> x) {
  const size_t n = static_cast<size_t>(config_.hc);
  const double eps = static_cast<double>(config_.hc_eps);
  const float* base = values(hc.base);
  const float* scale = values(hc.scale);
  pool_.parallel_for(streams.rows(), [&](Range range, int) {
    std::vector<double> pre(n);
    std::vector<double> comb(n * n);
    for (int r = static_cast<int>(range.first); r < range.last; ++r) {
      const std::span<const float> z(streams.device_ptr() + r * streams.ld(), static_cast<size_t>(streams.cols()));
      const std::vector<double> m = mix_logits(hc, z, config_.rms_eps);
      const auto coefficient = [&](size_t t, int part) {
        return m[t] * static_cast<double>(scale[part]) + static_cast<double>(base[t]);
      };
      for (size_t j = 0; j < n; ++j) {
        pre[j] = sigmoid(coefficient(j, 0)) + eps;
        mix.post.device_ptr()[r * mix.post.ld() + static_cast<std::ptrdiff_t>(j)] =
            static_cast<float>(2.0 * sigmoid(coefficient(n + j, 1)));
      }
      for (size_t t = 0; t < n * n; ++t) {
        comb[t] = coefficient(2 * n + t, 2);
      }
      sinkhorn(comb, n, config_.sinkhorn_iterations, eps);
      std::transform(comb.begin(), comb.end(), mix.comb.device_ptr() + r * mix.comb.ld(),
                     [](double v) { return static_cast<float>(v); });

      const std::span<float> out(x.device_ptr() + r * x.ld(), static_cast<size_t>(x.cols()));
      collapse(pre, z, out);
      rms_norm_row(out, values(norm), config_.rms_eps, out.data());
    }
  });
}

void ReferenceOps::hc_exit(DeviceMat<const float> y, const HcMix& mix, DeviceMat<float> streams) {
  const int n = config_.hc;
  const int d = config_.hidden;
  pool_.parallel_for(streams.rows(), [&](Range range, int) {
    std::vector<double> old(static_cast<size_t>(n));
    for (int r = static_cast<int>(range.first); r < range.last; ++r) {
      const float* post = mix.post.device_ptr() + r * mix.post.ld();
      const float* comb = mix.comb.device_ptr() + r * mix.comb.ld();
      const float* out = y.device_ptr() + r * y.ld();
      float* x = streams.device_ptr() + r * streams.ld();
      for (int i = 0; i < d; ++i) {
        for (int j = 0; j < n; ++j) {
          old[static_cast<size_t>(j)] = static_cast<double>(x[j * d + i]);
        }
        for (int k = 0; k < n; ++k) {
          double sum = static_cast<double>(post[k]) * static_cast<double>(out[i]);
          for (int j = 0; j < n; ++j) {
            sum += static_cast<double>(comb[j * n + k]) * old[static_cast<size_t>(j)];
          }
          x[k * d + i] = static_cast<float>(sum);
        }
      }
    }
  });
}

void ReferenceOps::hc_collapse(const HcWeights& hc, const Weight& norm, DeviceMat<const float> streams,
                               DeviceMat<float> x) {
  const double scale = static_cast<double>(values(hc.scale)[0]);
  const float* base = values(hc.base);
  for (int i = 0; i < batch_.n_logits(); ++i) {
    const int r = batch_.logit_rows[static_cast<size_t>(i)];
    const std::span<const float> z(streams.device_ptr() + r * streams.ld(), static_cast<size_t>(streams.cols()));
    std::vector<double> pre = mix_logits(hc, z, config_.rms_eps);
    for (size_t j = 0; j < pre.size(); ++j) {
      pre[j] = sigmoid(pre[j] * scale + static_cast<double>(base[j])) + static_cast<double>(config_.hc_eps);
    }
    const std::span<float> out(x.device_ptr() + i * x.ld(), static_cast<size_t>(x.cols()));
    collapse(pre, z, out);
    rms_norm_row(out, values(norm), config_.rms_eps, out.data());
  }
}

}  // namespace fathom::reference
