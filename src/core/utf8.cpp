#include "core/utf8.h"

namespace fathom {
namespace {

constexpr std::string_view kReplacement = "\uFFFD";

}  // namespace

Utf8Char decode_utf8(std::string_view text) noexcept {
  using Status = Utf8Char::Status;
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t lead = byte(0);
  if (lead < 0x80) {
    return {lead, 1, Status::kValid};
  }
  // Unicode, table 3-7: only the second byte's range depends on the lead byte.
  const uint8_t size = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  uint8_t low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  uint8_t high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  if (lead < 0xC2 || lead > 0xF4) {
    return {0, 1, Status::kInvalid};
  }
  char32_t value = lead & (0x7FU >> size);
  for (uint8_t i = 1; i < size; ++i) {
    if (i == text.size()) {
      return {0, i, Status::kIncomplete};
    }
    if (byte(i) < low || byte(i) > high) {
      return {0, i, Status::kInvalid};
    }
    value = (value << 6) | (byte(i) & 0x3FU);
    low = 0x80;
    high = 0xBF;
  }
  return {value, size, Status::kValid};
}

bool is_valid_utf8(std::string_view text) noexcept {
  while (!text.empty()) {
    const Utf8Char c = decode_utf8(text);
    if (c.status != Utf8Char::Status::kValid) {
      return false;
    }
    text.remove_prefix(c.size);
  }
  return true;
}

std::string replace_invalid_utf8(std::string_view text) {
  Utf8Stream stream;
  std::string result = stream.push(text);
  result += stream.finish();
  return result;
}

std::string Utf8Stream::push(std::string_view bytes) {
  pending_ += bytes;
  std::string text;
  text.reserve(pending_.size());
  std::string_view rest = pending_;
  while (!rest.empty()) {
    const Utf8Char c = decode_utf8(rest);
    if (c.status == Utf8Char::Status::kIncomplete) {
      break;
    }
    text += c.status == Utf8Char::Status::kValid ? rest.substr(0, c.size) : kReplacement;
    rest.remove_prefix(c.size);
  }
  pending_.erase(0, pending_.size() - rest.size());
  return text;
}

std::string Utf8Stream::finish() {
  std::string text(pending_.empty() ? std::string_view{} : kReplacement);
  pending_.clear();
  return text;
}

}  // namespace fathom
