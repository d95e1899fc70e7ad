#include "grammar/json_number.h"

#include <algorithm>
#include <charconv>
#include <tuple>
#include <utility>
#include <vector>

namespace fathom {
namespace {

constexpr size_t kMaxWholeDigits = 15;
constexpr size_t kMaxFractionDigits = 10;
constexpr int kMaxDigits = 400;

ExprId digit(Grammar& grammar, char first, char last) {
  return grammar.chars({{static_cast<char32_t>(first), static_cast<char32_t>(last)}});
}

ExprId any_digits(Grammar& grammar, size_t min, size_t max) {
  return grammar.repeat(digit(grammar, '0', '9'), static_cast<int>(min), static_cast<int>(max));
}

bool all_are(std::string_view text, char c) { return text.find_first_not_of(c) == std::string_view::npos; }

// All strings of digits from `low` to `high`, which are equally long.
ExprId digits_between(Grammar& grammar, std::string_view low, std::string_view high) {
  if (all_are(low, '0') && all_are(high, '9')) {
    return any_digits(grammar, low.size(), low.size());
  }
  const std::string_view low_rest = low.substr(1);
  const std::string_view high_rest = high.substr(1);
  if (low[0] == high[0]) {
    return grammar.sequence({digit(grammar, low[0], low[0]), digits_between(grammar, low_rest, high_rest)});
  }
  std::vector<ExprId> choices;
  char first = low[0];
  char last = high[0];
  if (!all_are(low_rest, '0')) {
    const std::string nines(low_rest.size(), '9');
    choices.push_back(grammar.sequence({digit(grammar, first, first), digits_between(grammar, low_rest, nines)}));
    ++first;
  }
  if (!all_are(high_rest, '9')) {
    const std::string zeros(high_rest.size(), '0');
    choices.push_back(grammar.sequence({digit(grammar, last, last), digits_between(grammar, zeros, high_rest)}));
    --last;
  }
  if (first <= last) {
    choices.push_back(
        grammar.sequence({digit(grammar, first, last), any_digits(grammar, low_rest.size(), low_rest.size())}));
  }
  return grammar.choice(std::move(choices));
}

bool whole_less(std::string_view a, std::string_view b) { return a.size() != b.size() ? a.size() < b.size() : a < b; }

// Whole numbers from `low` to `high`, none negative, without leading zeros.
ExprId wholes_between(Grammar& grammar, const std::string& low, const std::string& high) {
  std::vector<ExprId> choices;
  for (size_t n = low.size(); n <= high.size() && !whole_less(high, low); ++n) {
    const std::string first = n == low.size() ? low : "1" + std::string(n - 1, '0');
    const std::string last = n == high.size() ? high : std::string(n, '9');
    choices.push_back(digits_between(grammar, first, last));
  }
  return grammar.choice(std::move(choices));
}

std::string plus_one(std::string whole) {
  for (size_t i = whole.size(); i-- > 0;) {
    if (whole[i] != '9') {
      ++whole[i];
      return whole;
    }
    whole[i] = '0';
  }
  return "1" + whole;
}

// Of a number above 0.
std::string minus_one(std::string whole) {
  for (size_t i = whole.size(); i-- > 0;) {
    if (whole[i] != '0') {
      --whole[i];
      break;
    }
    whole[i] = '9';
  }
  return whole.size() > 1 && whole[0] == '0' ? whole.substr(1) : whole;
}

// Fractions, with their point, that keep a number whose whole part is that of one or both bounds within them.
class FractionBuilder {
 public:
  FractionBuilder(Grammar& grammar, const Bound* low, const Bound* high, size_t max_digits)
      : grammar_(grammar), low_(low), high_(high), max_digits_(max_digits) {}

  ExprId build() {
    const bool at_low = low_ != nullptr;
    const bool at_high = high_ != nullptr;
    std::vector<ExprId> choices = {grammar_.sequence({grammar_.literal("."), digits_from(0, at_low, at_high)})};
    if (may_stop(0, at_low, at_high)) {
      choices.push_back(grammar_.literal(""));
    }
    return grammar_.choice(std::move(choices));
  }

 private:
  static char digit_of(const Bound& bound, size_t i) {
    return i < bound.value.fraction.size() ? bound.value.fraction[i] : '0';
  }
  // at_low, at_high: the i digits so far are those of the bound.
  [[nodiscard]] bool may_stop(size_t i, bool at_low, bool at_high) const {
    const bool above = !at_low || (i >= low_->value.fraction.size() && !low_->exclusive);
    const bool below = !at_high || i < high_->value.fraction.size() || !high_->exclusive;
    return above && below;
  }
  // At least one more digit.
  ExprId digits_from(size_t i, bool at_low, bool at_high) {
    if (i == max_digits_) {
      return grammar_.nothing();
    }
    if (!at_low && !at_high) {
      return any_digits(grammar_, 1, max_digits_ - i);
    }
    const char first = at_low ? digit_of(*low_, i) : '0';
    const char last = at_high ? digit_of(*high_, i) : '9';
    std::vector<ExprId> choices;
    const auto add = [&](char from, char to, bool is_low, bool is_high) {
      if (from > to) {
        return;
      }
      std::vector<ExprId> rests = {digits_from(i + 1, is_low, is_high)};
      if (may_stop(i + 1, is_low, is_high)) {
        rests.push_back(grammar_.literal(""));
      }
      choices.push_back(grammar_.sequence({digit(grammar_, from, to), grammar_.choice(std::move(rests))}));
    };
    if (at_low && at_high && first == last) {
      add(first, last, true, true);
    } else {
      if (at_low) {
        add(first, first, true, false);
      }
      if (at_high) {
        add(last, last, false, true);
      }
      add(static_cast<char>(first + at_low), static_cast<char>(last - at_high), false, false);
    }
    return grammar_.choice(std::move(choices));
  }

  Grammar& grammar_;
  const Bound* low_;
  const Bound* high_;
  size_t max_digits_;
};

Bound largest() { return {.value = {.whole = std::string(kMaxWholeDigits, '9')}}; }

// Numbers from `low` to `high`, none negative, with `n_fraction` digits after the point at the most.
ExprId add_magnitudes(Grammar& grammar, const Bound& low, const Bound& high, bool integer, size_t n_fraction) {
  const std::string& low_whole = low.value.whole;
  if (whole_less(high.value.whole, low_whole)) {
    return grammar.nothing();
  }
  if (integer) {
    const bool skips_low = !low.value.fraction.empty() || low.exclusive;
    const bool skips_high = high.value.fraction.empty() && high.exclusive;
    if (skips_high && high.value.is_zero()) {
      return grammar.nothing();
    }
    return wholes_between(grammar, skips_low ? plus_one(low_whole) : low_whole,
                          skips_high ? minus_one(high.value.whole) : high.value.whole);
  }
  const auto fraction = [&](const Bound* from, const Bound* to) {
    return FractionBuilder(grammar, from, to, n_fraction).build();
  };
  if (low_whole == high.value.whole) {
    if (less(high.value, low.value)) {
      return grammar.nothing();
    }
    return grammar.sequence({grammar.literal(low_whole), fraction(&low, &high)});
  }
  return grammar.choice({grammar.sequence({grammar.literal(low_whole), fraction(&low, nullptr)}),
                         grammar.sequence({grammar.literal(high.value.whole), fraction(nullptr, &high)}),
                         grammar.sequence({wholes_between(grammar, plus_one(low_whole), minus_one(high.value.whole)),
                                           fraction(nullptr, nullptr)})});
}

ExprId add_unbounded(Grammar& grammar, bool integer) {
  const ExprId whole = grammar.sequence(
      {grammar.optional(grammar.literal("-")),
       grammar.choice({grammar.literal("0"),
                       grammar.sequence({digit(grammar, '1', '9'), any_digits(grammar, 0, kMaxWholeDigits - 1)})})});
  if (integer) {
    return whole;
  }
  const ExprId fraction = grammar.sequence({grammar.literal("."), any_digits(grammar, 1, kMaxFractionDigits)});
  const ExprId exponent =
      grammar.sequence({grammar.chars({{'E', 'E'}, {'e', 'e'}}),
                        grammar.optional(grammar.chars({{'+', '+'}, {'-', '-'}})), any_digits(grammar, 1, 2)});
  return grammar.sequence({whole, grammar.optional(fraction), grammar.optional(exponent)});
}

}  // namespace

std::optional<Decimal> Decimal::parse(std::string_view text) {
  Decimal result;
  if (text.starts_with('-')) {
    result.negative = true;
    text.remove_prefix(1);
  }
  int exponent = 0;
  if (const size_t e = text.find_first_of("eE"); e != std::string_view::npos) {
    std::string_view digits = text.substr(e + 1);
    if (digits.starts_with('+')) {
      digits.remove_prefix(1);
    }
    if (std::from_chars(digits.data(), digits.data() + digits.size(), exponent).ec != std::errc() ||
        std::abs(exponent) > kMaxDigits) {
      return std::nullopt;
    }
    text = text.substr(0, e);
  }
  const size_t point = std::min(text.find('.'), text.size());
  std::string digits(text.substr(0, point));
  std::string fraction(point < text.size() ? text.substr(point + 1) : "");
  for (; exponent > 0; --exponent) {
    digits += fraction.empty() ? '0' : fraction[0];
    fraction.erase(0, 1);
  }
  for (; exponent < 0; ++exponent) {
    fraction.insert(fraction.begin(), digits.empty() ? '0' : digits.back());
    if (!digits.empty()) {
      digits.pop_back();
    }
  }
  digits.erase(0, std::min(digits.find_first_not_of('0'), digits.size()));
  fraction.erase(fraction.find_last_not_of('0') + 1);
  if (digits.size() + fraction.size() > static_cast<size_t>(kMaxDigits)) {
    return std::nullopt;
  }
  result.whole = digits.empty() ? "0" : digits;
  result.fraction = fraction;
  result.negative = result.negative && !result.is_zero();
  return result;
}

bool less(const Decimal& a, const Decimal& b) {
  if (a.negative != b.negative) {
    return a.negative;
  }
  const Decimal& x = a.negative ? b : a;
  const Decimal& y = a.negative ? a : b;
  return x.whole != y.whole ? whole_less(x.whole, y.whole) : x.fraction < y.fraction;
}

ExprId add_number(Grammar& grammar, const NumberRange& range) {
  if (!range.min && !range.max) {
    return add_unbounded(grammar, range.integer);
  }
  // As many as a double tells apart near the bounds, and those of the bounds.
  size_t n_whole = 1;
  size_t n_fraction = 1;
  for (const std::optional<Bound>& bound : {range.min, range.max}) {
    n_whole = std::max(n_whole, bound ? bound->value.whole.size() : 0);
    n_fraction = std::max(n_fraction, bound ? bound->value.fraction.size() : 0);
  }
  n_fraction = std::max(n_fraction, std::min(kMaxFractionDigits, kMaxWholeDigits - std::min(n_whole, kMaxWholeDigits)));
  std::vector<ExprId> choices;
  const Bound zero;
  // Bounds beyond the largest magnitude still leave numbers with one digit more than they have.
  const auto beyond = [](const Bound& low) {
    Bound high = largest();
    high.value.whole = std::max(high.value.whole, std::string(low.value.whole.size() + 1, '9'),
                                [](const std::string& a, const std::string& b) { return whole_less(a, b); });
    return high;
  };
  if (!range.max || !range.max->value.negative) {
    const Bound low = range.min && !range.min->value.negative ? *range.min : zero;
    choices.push_back(add_magnitudes(grammar, low, range.max ? *range.max : beyond(low), range.integer, n_fraction));
  }
  if (!range.min || range.min->value.negative) {
    // -0 is left to the other half.
    Bound low{.value = {}, .exclusive = true};
    if (range.max && range.max->value.negative) {
      low = {range.max->value.magnitude(), range.max->exclusive};
    }
    const Bound high = range.min ? Bound{range.min->value.magnitude(), range.min->exclusive} : beyond(low);
    choices.push_back(
        grammar.sequence({grammar.literal("-"), add_magnitudes(grammar, low, high, range.integer, n_fraction)}));
  }
  return grammar.choice(std::move(choices));
}

}  // namespace fathom
