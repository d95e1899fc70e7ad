#include "server/thinking_fields.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

namespace fathom {
namespace {

// The hosted API's levels (spec/encoding.md 4.2).
constexpr std::array<std::pair<std::string_view, Thinking>, 8> kEfforts = {{{"none", Thinking::kOff},
                                                                            {"minimal", Thinking::kLow},
                                                                            {"low", Thinking::kLow},
                                                                            {"medium", Thinking::kHigh},
                                                                            {"high", Thinking::kHigh},
                                                                            {"xhigh", Thinking::kHigh},
                                                                            {"max", Thinking::kMax},
                                                                            {"ultra", Thinking::kMax}}};

std::optional<Thinking> read_effort(const JsonFields& object, const char* key) {
  const std::optional<std::string> effort = object.text(key);
  if (!effort) {
    return std::nullopt;
  }
  const auto* const found = std::ranges::find(kEfforts, *effort, &std::pair<std::string_view, Thinking>::first);
  if (found == kEfforts.end()) {
    object.fail(key, "one of none, minimal, low, medium, high, xhigh, max, ultra");
  }
  return found->second;
}

}  // namespace

Thinking read_thinking(const JsonFields& body, const std::optional<JsonFields>& effort, const char* key,
                       Thinking otherwise) {
  const std::optional<Thinking> wanted = effort ? read_effort(*effort, key) : std::nullopt;
  bool enabled = false;
  if (const std::optional<JsonFields> thinking = body.object("thinking")) {
    const std::optional<std::string> type = thinking->text("type");
    if (type == "disabled") {
      return Thinking::kOff;
    }
    enabled = type == "enabled" || type == "adaptive";
    if (!enabled) {
      thinking->fail("type", "one of enabled, adaptive, disabled");
    }
  }
  if (wanted) {
    return *wanted;
  }
  return enabled && otherwise == Thinking::kOff ? Thinking::kHigh : otherwise;
}

}  // namespace fathom
