// Router (docs/model.md 5.1): few values, so double where the functions are steep.
#include <algorithm>
#include <cmath>

#include "backend/cpu/cpu_ops.h"
#include "backend/cpu/split.h"
#include "backend/cpu/uploaded.h"

namespace fathom::cpu {
namespace {

double softplus(double x) { return x > 20.0 ? x : std::log1p(std::exp(x)); }

// The k best of n in `ids`, best first; of equal ones the lower wins.
template <class Value>
void choose_best(int n, int k, Value&& value, int32_t* ids) {
  int kept = 0;
  for (int e = 0; e < n; ++e) {
    int at = kept;
    while (at > 0 && value(e) > value(ids[at - 1])) {
      --at;
    }
    if (at == k) {
      continue;
    }
    kept = std::min(kept + 1, k);
    std::copy_backward(ids + at, ids + kept - 1, ids + kept);
    ids[at] = e;
  }
}

}  // namespace

void CpuOps::route_row(const RouterWeights& w, int r, float* scores, const TopK& experts) const {
  const int n = config_.n_experts;
  const int k = config_.n_experts_used;
  std::transform(scores, scores + n, scores,
                 [](float logit) { return static_cast<float>(std::sqrt(softplus(static_cast<double>(logit)))); });
  int32_t* ids = experts.ids.device_ptr() + r * experts.ids.ld();
  if (w.token_to_expert) {
    std::copy_n(id_row(*w.token_to_expert, plan_.batch().tokens[static_cast<size_t>(r)]), k, ids);
  } else {
    const float* bias = vector_values(*w.bias);
    choose_best(
        n, k, [&](int e) { return scores[e] + bias[e]; }, ids);
  }
  std::sort(ids, ids + k);  // ascending, the order in which experts are summed

  double sum = 0.0;
  for (int i = 0; i < k; ++i) {
    sum += static_cast<double>(scores[ids[i]]);
  }
  float* weights = experts.weights.device_ptr() + r * experts.weights.ld();
  for (int i = 0; i < k; ++i) {
    weights[i] =
        static_cast<float>(static_cast<double>(scores[ids[i]]) / sum * static_cast<double>(config_.routed_scale));
  }
}

void CpuOps::route(int /*layer*/, const RouterWeights& w, DeviceMat<const float> x, TopK experts) {
  const DeviceMat<float> scores = mix_scratch_.slice_rows(0, x.rows());
  mix_product(w.gate, x, scores);
  constexpr size_t kScoreBytes = 128;  // that could be read while one score is computed
  const size_t work = static_cast<size_t>(x.rows()) * static_cast<size_t>(config_.n_experts) * kScoreBytes;
  split(x.rows(), work, [&](Range range, int) {
    for (auto r = static_cast<int>(range.first); r < range.last; ++r) {
      route_row(w, r, scores.device_ptr() + r * scores.ld(), experts);
    }
  });
}

}  // namespace fathom::cpu
