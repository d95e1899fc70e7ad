#include "sampling/candidates.h"

#include <algorithm>
#include <limits>

namespace fathom {

void select_best(std::span<const float> values, int k, std::vector<Candidate>& out) {
  out.clear();
  const size_t limit = static_cast<size_t>(std::max(k, 0));
  // A heap whose front is the worst of the best so far. Most values lose against it, so the scan is one comparison.
  for (size_t i = 0; i < values.size() && limit > 0; ++i) {
    const Candidate candidate{values[i], static_cast<TokenId>(i)};
    if (out.size() < limit) {
      if (candidate.value > -std::numeric_limits<float>::infinity()) {
        out.push_back(candidate);
        std::push_heap(out.begin(), out.end(), better);
      }
    } else if (candidate.value > out.front().value) {
      std::pop_heap(out.begin(), out.end(), better);
      out.back() = candidate;
      std::push_heap(out.begin(), out.end(), better);
    }
  }
  std::sort_heap(out.begin(), out.end(), better);
}

void select_at_least(std::span<const float> weights, float lowest, std::vector<Candidate>& out) {
  out.clear();
  for (size_t i = 0; i < weights.size(); ++i) {
    if (weights[i] >= lowest) {
      out.push_back({weights[i], static_cast<TokenId>(i)});
    }
  }
}

void select_nucleus(std::span<const float> weights, double total, double share, std::vector<Candidate>& out) {
  // All tokens below this weight together weigh less than what the nucleus leaves out.
  const double negligible = (1.0 - share) * total / static_cast<double>(weights.size());
  std::vector<Candidate>& heap = out;
  heap.clear();
  for (size_t i = 0; i < weights.size(); ++i) {
    if (weights[i] > 0.0F && static_cast<double>(weights[i]) >= negligible) {
      heap.push_back({weights[i], static_cast<TokenId>(i)});
    }
  }
  // pop_heap moves the best of the rest to the end of the range: the nucleus collects there, best last.
  const auto worse = [](const Candidate& a, const Candidate& b) { return better(b, a); };
  std::make_heap(heap.begin(), heap.end(), worse);
  auto rest = heap.end();
  double reached = 0.0;
  while (rest != heap.begin() && reached < share * total) {
    std::pop_heap(heap.begin(), rest, worse);
    --rest;
    reached += static_cast<double>(rest->value);
  }
  heap.erase(heap.begin(), rest);
  std::reverse(heap.begin(), heap.end());
}

void cut_to_nucleus(std::vector<Candidate>& candidates, double share) {
  double total = 0.0;
  for (const Candidate& c : candidates) {
    total += static_cast<double>(c.value);
  }
  double reached = 0.0;
  size_t n = 0;
  while (n < candidates.size() && reached < share * total) {
    reached += static_cast<double>(candidates[n++].value);
  }
  candidates.resize(n);
}

}  // namespace fathom
