// One metadata value of a GGUF file: a view of its bytes with checked conversions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace fathom {

// The numbers are the file format's.
enum class GgufType : uint8_t {
  kU8 = 0,
  kI8 = 1,
  kU16 = 2,
  kI16 = 3,
  kU32 = 4,
  kI32 = 5,
  kF32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kU64 = 10,
  kI64 = 11,
  kF64 = 12,
};
inline constexpr uint32_t kGgufTypeCount = 13;

[[nodiscard]] std::string_view gguf_type_name(GgufType type) noexcept;  // "u32"
// Bytes of one element; 0 for strings and arrays, whose size varies.
[[nodiscard]] size_t gguf_type_bytes(GgufType type) noexcept;

// Views stay valid as long as the GgufFile they come from. Every conversion throws kBadModel with the key's name when
// the value has another type or does not fit; integers convert from any width, floats from any float or integer.
class GgufValue {
 public:
  // Used by the reader. `bytes`: the encoded value; of an array, the elements only. Precondition: well-formed.
  GgufValue(const std::string& file, std::string_view key, GgufType type, GgufType element_type, uint64_t count,
            std::span<const std::byte> bytes)
      : file_(&file), key_(key), type_(type), element_type_(element_type), count_(count), bytes_(bytes) {}

  [[nodiscard]] std::string_view key() const noexcept { return key_; }
  [[nodiscard]] GgufType type() const noexcept { return type_; }
  [[nodiscard]] bool is_array() const noexcept { return type_ == GgufType::kArray; }
  [[nodiscard]] GgufType element_type() const noexcept { return element_type_; }  // type() when not an array
  [[nodiscard]] uint64_t count() const noexcept { return count_; }                // 1 when not an array
  [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return bytes_; }
  [[nodiscard]] std::string type_text() const;  // "u32", "array of 43 f32"

  [[nodiscard]] int64_t to_int(int64_t min = kMinInt, int64_t max = kMaxInt) const;
  [[nodiscard]] double to_float() const;
  [[nodiscard]] bool to_bool() const;
  [[nodiscard]] std::string_view to_string() const;

  [[nodiscard]] std::vector<int64_t> to_ints(int64_t min = kMinInt, int64_t max = kMaxInt) const;
  [[nodiscard]] std::vector<double> to_floats() const;
  [[nodiscard]] std::vector<std::string_view> to_strings() const;

  // One value per layer: a scalar stands for every layer; of an array the first `n_layers` are taken, and a shorter
  // one is an error.
  [[nodiscard]] std::vector<int64_t> to_ints_per_layer(int n_layers, int64_t min = kMinInt,
                                                       int64_t max = kMaxInt) const;
  [[nodiscard]] std::vector<double> to_floats_per_layer(int n_layers) const;

 private:
  static constexpr int64_t kMinInt = std::numeric_limits<int64_t>::min();
  static constexpr int64_t kMaxInt = std::numeric_limits<int64_t>::max();

  [[nodiscard]] int64_t int_at(uint64_t index, int64_t min, int64_t max) const;
  [[nodiscard]] double float_at(uint64_t index) const;
  void require_scalar(std::string_view expected) const;
  void require_array(std::string_view expected) const;
  void require_layers(int n_layers) const;
  [[noreturn]] void fail_type(std::string_view expected) const;

  const std::string* file_;
  std::string_view key_;
  GgufType type_;
  GgufType element_type_;
  uint64_t count_;
  std::span<const std::byte> bytes_;
};

}  // namespace fathom
