// Any bytes as text: the first says which bytes are trusted; decoding gives the text back, however it is streamed.
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "core/check.h"
#include "core/utf8.h"
#include "support/read_file.h"
#include "tokenizer/tokenizer.h"

namespace {

// Every `period`-th run of `period` bytes is trusted.
std::vector<fathom::TextSpan> make_spans(size_t size, size_t period) {
  std::vector<fathom::TextSpan> spans;
  for (size_t begin = 0; period > 0 && begin < size; begin += 2 * period) {
    spans.push_back({begin, std::min(begin + period, size)});
  }
  return spans;
}

void check(const fathom::Tokenizer& tokenizer, std::string_view text, size_t period) {
  using fathom::AddedTokenPolicy;
  const std::vector<fathom::TextSpan> spans = make_spans(text.size(), period);
  for (const auto policy : {AddedTokenPolicy::kEverywhere, AddedTokenPolicy::kNowhere, AddedTokenPolicy::kTrusted}) {
    const auto tokens = tokenizer.encode(text, {.added_tokens = policy, .trusted = spans});
    FATHOM_CHECK(tokenizer.decode(tokens) == text, "decoding gives the text back");
    fathom::Utf8Stream stream;
    std::string streamed;
    for (const fathom::TokenId token : tokens) {
      streamed += stream.push(tokenizer.token_bytes(token));
    }
    streamed += stream.finish();
    FATHOM_CHECK(streamed == fathom::replace_invalid_utf8(text), "a stream gives the same text");
    FATHOM_CHECK(fathom::is_valid_utf8(streamed), "a stream gives well-formed text");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const fathom::Tokenizer tokenizer(
      fathom::parse_tokenizer_json(fathom::test::read_file(FATHOM_TEST_DATA_DIR "/tokenizer/bundled.json")));
  if (size > 0) {
    check(tokenizer, {reinterpret_cast<const char*>(data) + 1, size - 1}, data[0]);
  }
  return 0;
}
