// Reads little-endian values from a span, never past its end. Private to gguf/.
#pragma once

#include <fmt/core.h>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "core/error.h"

namespace fathom {

static_assert(std::endian::native == std::endian::little, "GGUF is read in place");

class ByteCursor {
 public:
  ByteCursor(std::span<const std::byte> bytes, const std::string& file) : bytes_(bytes), file_(file) {}

  // Names what is read next, for the message when the bytes end inside it.
  void enter(std::string what) { what_ = std::move(what); }

  template <class T>
  [[nodiscard]] T read() {
    T value;
    std::memcpy(&value, take(sizeof(T)).data(), sizeof(T));
    return value;
  }

  [[nodiscard]] std::string_view read_string() {
    const std::span<const std::byte> text = take(read<uint64_t>());
    return {reinterpret_cast<const char*>(text.data()), text.size()};
  }

  [[nodiscard]] std::span<const std::byte> take(uint64_t n_bytes) {
    if (n_bytes > remaining()) {
      throw Error(ErrorCode::kBadModel,
                  fmt::format("{}: file ends inside {}: {} bytes wanted at byte {}, but the file has {}", file_, what_,
                              n_bytes, position_, bytes_.size()));
    }
    const auto taken = bytes_.subspan(position_, n_bytes);
    position_ += n_bytes;
    return taken;
  }

  [[nodiscard]] size_t position() const { return position_; }
  [[nodiscard]] uint64_t remaining() const { return bytes_.size() - position_; }
  // Everything since `start`, a former position().
  [[nodiscard]] std::span<const std::byte> since(size_t start) const {
    return bytes_.subspan(start, position_ - start);
  }

 private:
  std::span<const std::byte> bytes_;
  const std::string& file_;
  std::string what_;
  size_t position_ = 0;
};

}  // namespace fathom
