#include "quant/grid_search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "core/scalar.h"
#include "quant/rounding.h"

namespace fathom {
namespace {

// One line per entry; the height at a scale is scale * norm - 2 * dot.
class Lines {
 public:
  [[nodiscard]] float height(size_t i, float scale) const { return scale * norms_[i] - 2.0F * dots_[i]; }
  [[nodiscard]] Choice choice(size_t i) const { return {dots_[i], norms_[i], entries_[i]}; }

  void append(const GridTable& table, const float* x, const float* w) {
    const size_t n = table.entries();
    float* const dots = dots_.data() + count_;
    float* const norms = norms_.data() + count_;
    std::fill_n(dots, n, 0.0F);
    for (size_t i = 0; i < table.width(); ++i) {
      add_multiple(table.column(i), w[i] * x[i], n, dots);
    }
    if (std::all_of(w, w + table.width(), [w](float v) { return v == w[0]; })) {
      std::fill_n(norms, n, 0.0F);
      add_multiple(table.norms(), w[0], n, norms);
    } else {
      add_weighted_norms(table, w, norms);
    }
    std::iota(entries_.begin() + static_cast<ptrdiff_t>(count_), entries_.begin() + static_cast<ptrdiff_t>(count_ + n),
              static_cast<uint16_t>(count_));
    count_ += n;
  }

  // The line that is lowest at this scale.
  [[nodiscard]] size_t lowest(float scale) const {
    std::array<float, kLanes> least;
    std::array<int32_t, kLanes> where{};
    least.fill(std::numeric_limits<float>::infinity());
    for (size_t i = 0; i < count_; i += kLanes) {
      for (size_t lane = 0; lane < kLanes; ++lane) {
        const float h = height(i + lane, scale);
        where[lane] = h < least[lane] ? static_cast<int32_t>(i) : where[lane];
        least[lane] = h < least[lane] ? h : least[lane];
      }
    }
    const auto lane = static_cast<size_t>(std::min_element(least.begin(), least.end()) - least.begin());
    return static_cast<size_t>(where[lane]) + lane;
  }

  // Drops all lines that are not below `limit` at this scale.
  void keep_below(float limit, float scale) {
    size_t kept = 0;
    for (size_t i = 0; i < count_; ++i) {
      const bool keep = height(i, scale) < limit;
      const Choice line = choice(i);
      dots_[kept] = line.dot;
      norms_[kept] = line.norm;
      entries_[kept] = line.entry;
      kept += keep ? 1 : 0;
    }
    count_ = kept;
    for (; count_ % kLanes != 0; ++count_) {
      dots_[count_] = 0.0F;
      norms_[count_] = std::numeric_limits<float>::infinity();  // never the lowest
    }
  }

 private:
  static constexpr size_t kLanes = 8;        // every grid has a multiple of this
  static constexpr size_t kMaxLines = 4096;  // two grids of IQ1

  static void add_multiple(const float* from, float factor, size_t n, float* to) {
    for (size_t i = 0; i < n; ++i) {
      to[i] += factor * from[i];
    }
  }

  static void add_weighted_norms(const GridTable& table, const float* w, float* norms) {
    std::fill_n(norms, table.entries(), 0.0F);
    for (size_t i = 0; i < table.width(); ++i) {
      const float* const value = table.column(i);
      for (size_t e = 0; e < table.entries(); ++e) {
        norms[e] += w[i] * (value[e] * value[e]);
      }
    }
  }

  std::array<float, kMaxLines> dots_;
  std::array<float, kMaxLines> norms_;
  std::array<uint16_t, kMaxLines> entries_;
  size_t count_ = 0;
};

float crossing(const Choice& a, const Choice& b) { return 2.0F * (a.dot - b.dot) / (a.norm - b.norm); }

// Adds the lines of the lower envelope between two lines that are on it, `left` for smaller scales.
void add_between(const Lines& lines, const Choice& left, const Choice& right, Choices& choices) {
  if (!(left.norm > right.norm) || choices.count == Choices::kMax) {
    return;
  }
  const float scale = crossing(left, right);
  const Choice middle = lines.choice(lines.lowest(scale));
  if (!(middle.height(scale) < std::min(left.height(scale), right.height(scale)))) {
    return;
  }
  choices.put(middle);
  add_between(lines, left, middle, choices);
  add_between(lines, middle, right, choices);
}

// The best scale for the entries that are best at `scale`.
GroupFit refit_groups(std::span<const Choices> groups, float scale) {
  float dot = 0.0F;
  float norm = 0.0F;
  for (const Choices& group : groups) {
    const Choice& choice = group.best(scale);
    dot += choice.dot;
    norm += choice.norm;
  }
  if (!(dot > 0.0F)) {
    return {};
  }
  return {dot / norm, -dot * dot / norm};
}

float cost_at(std::span<const Choices> groups, float scale) {
  float cost = 0.0F;
  for (const Choices& group : groups) {
    cost += group.best(scale).cost(scale);
  }
  return cost;
}

struct Coded {
  uint16_t d = 0;
  std::array<int, 16> codes{};
  float cost = 0.0F;
};

// Integer codes for a given d: the nearest to each sub-block's own best scale, or a neighbour.
Coded choose_codes(std::span<const Choices> groups, std::span<const GroupFit> fits, const IqScales& scales, float d) {
  Coded coded;
  coded.d = f32_to_f16(d);
  const float unit = f16_to_f32(coded.d);
  const size_t per_sub = groups.size() / fits.size();
  for (size_t s = 0; s < fits.size(); ++s) {
    const std::span<const Choices> sub = groups.subspan(s * per_sub, per_sub);
    const float wanted = (fits[s].scale * inverse_or_zero(unit) - scales.offset) / scales.step;
    const int middle = round_to_code(wanted, 0, scales.max_code);
    float least = std::numeric_limits<float>::infinity();
    for (int code = std::max(middle - 1, 0); code <= std::min(middle + 1, scales.max_code); ++code) {
      const float cost = cost_at(sub, unit * (scales.offset + scales.step * static_cast<float>(code)));
      if (cost < least) {
        least = cost;
        coded.codes[s] = code;
      }
    }
    coded.cost += least;
  }
  return coded;
}

// The d that suits the entries and codes of `coded` best.
float refit_d(std::span<const Choices> groups, const IqScales& scales, const Coded& coded) {
  const size_t per_sub = groups.size() / static_cast<size_t>(scales.n_subs);
  const float unit = f16_to_f32(coded.d);
  double dot = 0.0;
  double norm = 0.0;
  for (size_t g = 0; g < groups.size(); ++g) {
    const float factor = scales.offset + scales.step * static_cast<float>(coded.codes[g / per_sub]);
    const Choice& choice = groups[g].best(unit * factor);
    dot += factor * choice.dot;
    norm += factor * factor * choice.norm;
  }
  return dot > 0.0 ? static_cast<float>(dot / norm) : 0.0F;
}

}  // namespace

const Choice& Choices::best(float scale) const {
  int where = 0;
  float least = std::numeric_limits<float>::infinity();
  for (int i = 0; i < count; ++i) {
    const float height = items[static_cast<size_t>(i)].height(scale);
    if (height < least) {
      least = height;
      where = i;
    }
  }
  return items[static_cast<size_t>(where)];
}

ScaleRange scale_range(std::span<const float> x, float largest_level) noexcept {
  float amax = 0.0F;
  for (const float v : x) {
    amax = std::max(amax, std::fabs(v));
  }
  const float high = amax / (0.7F * largest_level);
  return {high / 6.0F, high};
}

void find_choices(std::span<const GridTable* const> tables, const float* x, const float* w, const ScaleRange& range,
                  Choices& choices) noexcept {
  Lines lines;
  for (const GridTable* table : tables) {
    lines.append(*table, x, w);
  }
  choices.count = 0;
  const Choice left = lines.choice(lines.lowest(range.low));
  const Choice right = lines.choice(lines.lowest(range.high));
  choices.put(left);
  if (right.entry == left.entry) {
    return;
  }
  choices.put(right);
  if (left.norm > right.norm) {
    // `left` and `right` are lowest at the ends. Where another line dips below both of them, it does so where they
    // cross.
    const float scale = crossing(left, right);
    lines.keep_below(std::min(left.height(scale), right.height(scale)), scale);
    add_between(lines, left, right, choices);
  }
}

GroupFit fit_groups(std::span<const Choices> groups, const ScaleRange& range) noexcept {
  constexpr int kSteps = 24;
  GroupFit best;
  const float ratio = std::pow(range.low / range.high, 1.0F / kSteps);
  float scale = range.high;
  for (int i = 0; i <= kSteps && scale > 0.0F; ++i, scale *= ratio) {
    const GroupFit fit = refit_groups(groups, scale);
    if (fit.cost < best.cost) {
      best = fit;
    }
  }
  for (int round = 0; round < 3 && best.scale > 0.0F; ++round) {
    const GroupFit fit = refit_groups(groups, best.scale);
    if (!(fit.cost < best.cost)) {
      break;
    }
    best = fit;
  }
  return best;
}

IqFit fit_iq_block(std::span<const Choices> groups, std::span<const ScaleRange> ranges,
                   const IqScales& scales) noexcept {
  std::array<GroupFit, 16> buffer{};
  const std::span<GroupFit> fits = std::span(buffer).first(ranges.size());
  const size_t per_sub = groups.size() / ranges.size();
  float largest = 0.0F;
  for (size_t s = 0; s < fits.size(); ++s) {
    fits[s] = fit_groups(groups.subspan(s * per_sub, per_sub), ranges[s]);
    largest = std::max(largest, fits[s].scale);
  }
  Coded best;
  const auto consider = [&](float d) {
    const Coded coded = choose_codes(groups, fits, scales, d);
    if (coded.cost < best.cost) {
      best = coded;
    }
  };
  const float d = largest / (scales.offset + scales.step * static_cast<float>(scales.max_code));
  for (int percent = -12; percent <= 12; percent += 2) {
    consider(d * (1.0F + 0.01F * static_cast<float>(percent)));
  }
  for (int round = 0; round < 3; ++round) {
    consider(refit_d(groups, scales, best));
  }
  IqFit fit{best.d, best.codes, {}};
  const float unit = f16_to_f32(best.d);
  for (size_t g = 0; g < groups.size(); ++g) {
    const float factor = scales.offset + scales.step * static_cast<float>(best.codes[g / per_sub]);
    fit.entries[g] = groups[g].best(unit * factor).entry;
  }
  return fit;
}

}  // namespace fathom
