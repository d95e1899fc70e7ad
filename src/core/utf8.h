// UTF-8 as the tokenizer meets it: checked decoding, the policy for ill-formed input, and the streaming decoder that
// turns token bytes into text. "Maximal subpart" is Unicode's term: the longest prefix of a well-formed sequence, or
// one byte; each becomes one U+FFFD.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace fathom {

struct Utf8Char {
  enum class Status : uint8_t {
    kValid,
    kInvalid,     // a maximal subpart that the next byte does not continue
    kIncomplete,  // a maximal subpart that the end of the text cut off
  };

  char32_t value = 0;  // meaningful when valid
  uint8_t size = 0;    // bytes: 1 to 4
  Status status = Status::kInvalid;
};

// The first character of `text`, which is not empty.
[[nodiscard]] Utf8Char decode_utf8(std::string_view text) noexcept;

[[nodiscard]] bool is_valid_utf8(std::string_view text) noexcept;

// Each maximal subpart of an ill-formed sequence becomes one U+FFFD.
[[nodiscard]] std::string replace_invalid_utf8(std::string_view text);

// Text from bytes that arrive in pieces: a token may end inside a character. Holds at most three bytes back.
class Utf8Stream {
 public:
  // The text that `bytes` completes; ill-formed input is replaced as above.
  [[nodiscard]] std::string push(std::string_view bytes);
  // What is left at the end of the stream: empty, or one U+FFFD for a cut-off character. The stream can be reused.
  [[nodiscard]] std::string finish();

 private:
  std::string pending_;
};

}  // namespace fathom
