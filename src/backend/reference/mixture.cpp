// Router and experts (docs/model.md 5).
#include <algorithm>
#include <numeric>

#include "backend/reference/math.h"
#include "backend/reference/reference_ops.h"

namespace fathom::reference {
namespace {

double softplus(double x) { return x > 20.0 ? x : std::log1p(std::exp(x)); }

// gate * sigmoid(gate) * up with the clamp in front: from above only for the gate. limit 0: no clamp.
double swiglu(double gate, double up, double limit) {
  if (limit > 0.0) {
    gate = std::min(gate, limit);
    up = std::clamp(up, -limit, limit);
  }
  return gate * sigmoid(gate) * up;
}

}  // namespace

void ReferenceOps::route(int /*layer*/, const RouterWeights& w, DeviceMat<const float> x, TopK experts) {
  const int n = config_.n_experts;
  const int k = config_.n_experts_used;
  pool_.parallel_for(x.rows(), [&](Range range, int) {
    std::vector<float> score(static_cast<size_t>(n));
    std::vector<float> biased(static_cast<size_t>(n));
    std::vector<int32_t> order(static_cast<size_t>(n));
    for (int r = static_cast<int>(range.first); r < range.last; ++r) {
      for (int e = 0; e < n; ++e) {
        const double logit = dot(row_values(w.gate, 0, e), x.device_ptr() + r * x.ld(), w.gate.in_dim);
        score[static_cast<size_t>(e)] = static_cast<float>(std::sqrt(softplus(logit)));
      }
      int32_t* ids = experts.ids.device_ptr() + r * experts.ids.ld();
      if (w.token_to_expert) {
        std::copy_n(id_row(*w.token_to_expert, batch_.tokens[static_cast<size_t>(r)]), k, ids);
      } else {
        std::transform(score.begin(), score.end(), values(*w.bias), biased.begin(), std::plus<>());
        std::iota(order.begin(), order.end(), 0);
        std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
          return biased[static_cast<size_t>(a)] > biased[static_cast<size_t>(b)];
        });
        std::copy_n(order.begin(), k, ids);
      }
      std::sort(ids, ids + k);  // ascending, the order in which experts are summed

      double sum = 0.0;
      for (int i = 0; i < k; ++i) {
        sum += static_cast<double>(score[static_cast<size_t>(ids[i])]);
      }
      for (int i = 0; i < k; ++i) {
        experts.weights.device_ptr()[r * experts.weights.ld() + i] = static_cast<float>(
            static_cast<double>(score[static_cast<size_t>(ids[i])]) / sum * static_cast<double>(config_.routed_scale));
      }
    }
  });
}

void ReferenceOps::experts(int layer, const ExpertWeights& routed, const ExpertWeights& shared, const TopK& chosen,
                           DeviceMat<const float> x, DeviceMat<float> y) {
  const int k = config_.n_experts_used;
  const auto stride = static_cast<size_t>(std::max(routed.gate.out_dim, shared.gate.out_dim));
  const auto hidden_row = [&](int r, int i) {
    return hidden_.data() + (static_cast<size_t>(r) * static_cast<size_t>(k + 1) + static_cast<size_t>(i)) * stride;
  };

  // h = w * swiglu(gate x, up x); the routing weight enters before the down projection.
  const auto up_rows = [&](const ExpertWeights& w, int slice, int r, int i, double weight, double limit, Range part) {
    const float* in = x.device_ptr() + r * x.ld();
    for (int f = static_cast<int>(part.first); f < part.last; ++f) {
      const double gate = dot(row_values(w.gate, slice, f), in, w.gate.in_dim);
      const double up = dot(row_values(w.up, slice, f), in, w.up.in_dim);
      hidden_row(r, i)[f] = static_cast<float>(weight * swiglu(gate, up, limit));
    }
  };
  const double limit = static_cast<double>(config_.swiglu_limit[static_cast<size_t>(layer)]);
  const double shared_limit = static_cast<double>(config_.shared_swiglu_limit[static_cast<size_t>(layer)]);
  pool_.run([&](int thread) {
    const Range part = partition(routed.gate.out_dim, pool_.threads(), thread);
    const Range shared_part = partition(shared.gate.out_dim, pool_.threads(), thread);
    for (int r = 0; r < x.rows(); ++r) {
      for (int i = 0; i < k; ++i) {
        const auto weight = static_cast<double>(chosen.weights.device_ptr()[r * chosen.weights.ld() + i]);
        up_rows(routed, chosen.ids.device_ptr()[r * chosen.ids.ld() + i], r, i, weight, limit, part);
      }
      up_rows(shared, 0, r, k, 1.0, shared_limit, shared_part);
    }
  });
  pool_.parallel_for(config_.hidden, [&](Range range, int) {
    for (int r = 0; r < x.rows(); ++r) {
      const int32_t* ids = chosen.ids.device_ptr() + r * chosen.ids.ld();
      for (int o = static_cast<int>(range.first); o < range.last; ++o) {
        double sum = 0.0;
        for (int i = 0; i < k; ++i) {
          sum += dot(row_values(routed.down, ids[i], o), hidden_row(r, i), routed.down.in_dim);
        }
        sum += dot(row_values(shared.down, 0, o), hidden_row(r, k), shared.down.in_dim);
        y.device_ptr()[r * y.ld() + o] = static_cast<float>(sum);
      }
    }
  });
}

}  // namespace fathom::reference
