#include "tokenizer/pre_tokenizer.h"

#include "core/utf8.h"

namespace fathom {
namespace {

// What splits 1 and 2 tell apart.
enum class SegmentKind : uint8_t { kNumber, kCjk, kOther };

SegmentKind segment_kind(char32_t c, CharClass char_class) noexcept {
  if (char_class == CharClass::kNumber) {
    return SegmentKind::kNumber;
  }
  const bool is_cjk = (c >= 0x4E00 && c <= 0x9FA5) || (c >= 0x3040 && c <= 0x30FF);
  return is_cjk ? SegmentKind::kCjk : SegmentKind::kOther;
}

bool is_ascii_letter(char32_t c) noexcept { return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z'); }
bool is_newline(char32_t c) noexcept { return c == '\r' || c == '\n'; }
bool is_word(CharClass c) noexcept { return c == CharClass::kLetter || c == CharClass::kMark; }
bool is_punctuation(CharClass c) noexcept { return c == CharClass::kPunctuation || c == CharClass::kSymbol; }

}  // namespace

PieceScanner::PieceScanner(std::string_view text, PreTokenizer kind) noexcept
    : text_(text), digits_per_piece_(kind == PreTokenizer::kDeepSeekV3 ? 3 : 1) {}

PieceScanner::Char PieceScanner::at(size_t pos, size_t end) const noexcept {
  if (pos >= end) {
    return {};
  }
  const Utf8Char c = decode_utf8(text_.substr(pos, end - pos));
  if (c.status != Utf8Char::Status::kValid) {
    return {kMaxCodePoint, CharClass::kOther, c.size};  // a code point that no rule names
  }
  return {c.value, char_class(c.value), c.size};
}

template <class Predicate>
size_t PieceScanner::skip(size_t pos, Predicate predicate) const noexcept {
  for (Char c = at(pos); c.size > 0 && predicate(c); c = at(pos)) {
    pos += c.size;
  }
  return pos;
}

std::string_view PieceScanner::next() noexcept {
  const size_t begin = pos_;
  if (begin == segment_end_) {
    segment_end_ = find_segment_end(begin);
  }
  pos_ = match(begin);
  if (pos_ == begin) {  // unmatched characters up to the next match are one piece; digits are such a piece
    do {
      pos_ += at(pos_).size;
    } while (pos_ < segment_end_ && match(pos_) == pos_);
  }
  return text_.substr(begin, pos_ - begin);
}

size_t PieceScanner::find_segment_end(size_t pos) const noexcept {
  const auto next = [&](size_t p) { return at(p, text_.size()); };
  const auto kind = [](const Char& c) { return segment_kind(c.value, c.char_class); };
  Char c = next(pos);
  const SegmentKind first_kind = kind(c);
  const size_t max_chars = first_kind == SegmentKind::kNumber ? digits_per_piece_ : text_.size();
  for (size_t n = 0; n < max_chars && c.size > 0 && kind(c) == first_kind; ++n) {
    pos += c.size;
    c = next(pos);
  }
  return pos;
}

// The end of the third split's match at `pos`; `pos` when there is none. Look-ahead ends with the segment.
size_t PieceScanner::match(size_t pos) const noexcept {
  const Char first = at(pos);
  const size_t after_first = pos + first.size;
  const Char second = at(after_first);
  const auto in_word = [](const Char& c) { return is_word(c.char_class); };

  const bool is_ascii_punctuation = first.value < 0x80 && is_punctuation(first.char_class);
  if (is_ascii_punctuation && is_ascii_letter(second.value)) {
    return skip(after_first, [](const Char& c) { return is_ascii_letter(c.value); });
  }
  const bool may_lead_word = !is_punctuation(first.char_class) && !is_newline(first.value);
  if (in_word(first) || (may_lead_word && in_word(second))) {
    return skip(after_first, in_word);
  }
  if (is_punctuation(first.char_class) || (first.value == ' ' && is_punctuation(second.char_class))) {
    const size_t end = skip(after_first, [](const Char& c) { return is_punctuation(c.char_class); });
    return skip(end, [](const Char& c) { return is_newline(c.value); });
  }
  return first.char_class == CharClass::kSpace ? match_spaces(pos) : pos;
}

// The last three alternatives, at a white-space character: up to the last line break of the run; else the run without
// its last character, which belongs to what follows; else the run.
size_t PieceScanner::match_spaces(size_t pos) const noexcept {
  size_t end = pos;
  size_t last = pos;
  size_t after_newline = pos;
  for (Char c = at(pos); c.char_class == CharClass::kSpace; c = at(end)) {
    last = end;
    end += c.size;
    if (is_newline(c.value)) {
      after_newline = end;
    }
  }
  if (after_newline > pos) {
    return after_newline;
  }
  return end == segment_end_ || last == pos ? end : last;
}

}  // namespace fathom
