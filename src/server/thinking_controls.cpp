#include "server/thinking_controls.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>

namespace fathom {
namespace {

// The hosted API's table.
constexpr std::array<std::pair<std::string_view, Thinking>, 8> kEfforts = {{{"none", Thinking::kOff},
                                                                            {"minimal", Thinking::kLow},
                                                                            {"low", Thinking::kLow},
                                                                            {"medium", Thinking::kHigh},
                                                                            {"high", Thinking::kHigh},
                                                                            {"xhigh", Thinking::kHigh},
                                                                            {"max", Thinking::kMax},
                                                                            {"ultra", Thinking::kMax}}};

}  // namespace

std::optional<Thinking> read_effort(const RequestFields& fields, const char* key) {
  const std::optional<std::string> effort = fields.text(key);
  if (!effort) {
    return std::nullopt;
  }
  const auto* const found = std::ranges::find(kEfforts, *effort, &std::pair<std::string_view, Thinking>::first);
  if (found == kEfforts.end()) {
    fields.fail(key, "one of none, minimal, low, medium, high, xhigh, max, ultra");
  }
  return found->second;
}

std::optional<bool> read_thinking_switch(const RequestFields& request) {
  const std::optional<RequestFields> thinking = request.object("thinking");
  const std::optional<std::string> type = thinking ? thinking->text("type") : std::nullopt;
  if (!type) {
    return std::nullopt;
  }
  if (type == "enabled" || type == "adaptive") {
    return true;
  }
  if (type != "disabled") {
    thinking->fail("type", "one of enabled, adaptive, disabled");
  }
  return false;
}

Thinking resolve_thinking(const ThinkingControls& controls, Thinking otherwise) {
  if (controls.on == false) {
    return Thinking::kOff;
  }
  if (controls.effort) {
    return *controls.effort;
  }
  const bool switched_on = controls.on == true && otherwise == Thinking::kOff;
  return switched_on ? Thinking::kHigh : otherwise;
}

Thinking read_thinking(const RequestFields& request, const std::optional<RequestFields>& effort, const char* key,
                       Thinking otherwise) {
  const ThinkingControls controls{.on = read_thinking_switch(request),
                                  .effort = effort ? read_effort(*effort, key) : std::nullopt};
  return resolve_thinking(controls, otherwise);
}

}  // namespace fathom
