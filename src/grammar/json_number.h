// Numbers in JSON, bounded to the digit.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "grammar/grammar.h"

namespace fathom {

// A decimal number without exponent.
struct Decimal {
  bool negative = false;
  std::string whole = "0";    // no leading zeros
  std::string fraction = {};  // no trailing zeros

  // Of a JSON number, or nothing if it has more than 400 digits.
  [[nodiscard]] static std::optional<Decimal> parse(std::string_view text);
  [[nodiscard]] bool is_zero() const { return whole == "0" && fraction.empty(); }
  [[nodiscard]] Decimal magnitude() const { return {.whole = whole, .fraction = fraction}; }

  friend bool operator==(const Decimal&, const Decimal&) = default;
};

[[nodiscard]] bool less(const Decimal& a, const Decimal& b);

struct Bound {
  Decimal value = {};
  bool exclusive = false;
};

struct NumberRange {
  std::optional<Bound> min = {}, max = {};
  bool integer = false;
};

// Plain decimal notation; exponents only when there are no bounds. At most 15 digits before and 10 after the point,
// more where a bound has more: a reader that computes in double never rounds across a bound. No text when the range is
// empty.
[[nodiscard]] ExprId add_number(Grammar& grammar, const NumberRange& range);

}  // namespace fathom
