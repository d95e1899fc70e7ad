// What chat/ (which writes prompts) and tokenizer/ (which reads them) agree on: how the control tokens are spelled and
// which bytes of a prompt the renderer itself wrote.
#pragma once

#include <cstddef>
#include <string_view>

namespace fathom {

// Bytes [begin, end) of a text.
struct TextSpan {
  size_t begin = 0;
  size_t end = 0;

  friend bool operator==(const TextSpan&, const TextSpan&) = default;
};

namespace literal {

inline constexpr std::string_view kBos = "<\uFF5Cbegin\u2581of\u2581sentence\uFF5C>";
inline constexpr std::string_view kEos = "<\uFF5Cend\u2581of\u2581sentence\uFF5C>";
inline constexpr std::string_view kPad = "<\uFF5C\u2581pad\u2581\uFF5C>";

inline constexpr std::string_view kUser = "<\uFF5CUser\uFF5C>";
inline constexpr std::string_view kAssistant = "<\uFF5CAssistant\uFF5C>";
inline constexpr std::string_view kLatestReminder = "<\uFF5Clatest_reminder\uFF5C>";

// Markup inside a turn. kDsml has no angle brackets: the "<" or "</" before it is ordinary text.
inline constexpr std::string_view kThink = "<think>";
inline constexpr std::string_view kEndThink = "</think>";
inline constexpr std::string_view kDsml = "\uFF5CDSML\uFF5C";

[[nodiscard]] constexpr bool is_markup(std::string_view literal) noexcept {
  return literal == kThink || literal == kEndThink || literal == kDsml;
}

inline constexpr std::string_view kAction = "<\uFF5Caction\uFF5C>";
inline constexpr std::string_view kQuery = "<\uFF5Cquery\uFF5C>";
inline constexpr std::string_view kAuthority = "<\uFF5Cauthority\uFF5C>";
inline constexpr std::string_view kDomain = "<\uFF5Cdomain\uFF5C>";
inline constexpr std::string_view kTitle = "<\uFF5Ctitle\uFF5C>";
inline constexpr std::string_view kReadUrl = "<\uFF5Cread_url\uFF5C>";

}  // namespace literal
}  // namespace fathom
