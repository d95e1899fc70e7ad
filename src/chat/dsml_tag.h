// The tags of tool calls in what a model writes: recognised in text that may end anywhere, spelled as the model was
// trained to or as models spell them when they drift (docs/chat.md lists the variants).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace fathom {

enum class TagStyle : uint8_t {
  kExact,     // as the renderer writes them
  kTolerant,  // and their variants
  kBare,      // and without the DSML mark: <invoke name="f">
};

struct DsmlTag {
  enum class Kind : uint8_t { kCalls, kInvoke, kParameter };
  enum class Flag : uint8_t { kNone, kString, kJson };  // string="true", string="false"

  Kind kind = Kind::kCalls;
  bool closes = false;
  std::string_view name = {};  // of an opening kInvoke or kParameter; a view of the text
  Flag flag = Flag::kNone;     // of an opening kParameter

  [[nodiscard]] bool opens(Kind k) const { return kind == k && !closes; }
  [[nodiscard]] bool ends(Kind k) const { return kind == k && closes; }
};

// kMaybe: the text ends before it is decided. A longer text never changes kYes or kNo.
enum class Match : uint8_t { kNo, kMaybe, kYes };

struct TagMatch {
  Match match = Match::kNo;
  DsmlTag tag = {};
  size_t size = 0;  // bytes of the tag
};

[[nodiscard]] Match match_literal(std::string_view text, std::string_view literal) noexcept;

// Whether `text` begins with a tag.
[[nodiscard]] TagMatch match_tag(std::string_view text, TagStyle style) noexcept;

// Whether `text` begins a block of calls: what opens it, up to the first <invoke ...>, which has to be there.
[[nodiscard]] TagMatch match_calls(std::string_view text, TagStyle style) noexcept;

}  // namespace fathom
