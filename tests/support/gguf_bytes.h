// Builds GGUF images byte by byte, right or wrong: independent of GgufWriter, which can only write right ones.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace fathom::test {

class GgufBytes {
 public:
  template <class T>
  static std::string pod(T value) {
    return {reinterpret_cast<const char*>(&value), sizeof(T)};
  }
  static std::string str(std::string_view text) { return pod<uint64_t>(text.size()) + std::string(text); }

  uint32_t version = 3;
  uint64_t alignment = 32;  // of the padding before the data; does not write general.alignment

  // `encoded`: what follows the type number.
  GgufBytes& key(std::string_view name, uint32_t type, std::string_view encoded) {
    keys_.push_back(str(name) + pod(type) + std::string(encoded));
    return *this;
  }
  GgufBytes& u32(std::string_view name, uint32_t value) { return key(name, 4, pod(value)); }
  GgufBytes& u16(std::string_view name, uint16_t value) { return key(name, 2, pod(value)); }
  GgufBytes& i32(std::string_view name, int32_t value) { return key(name, 5, pod(value)); }
  GgufBytes& string(std::string_view name, std::string_view value) { return key(name, 8, str(value)); }
  // `encoded`: the elements.
  GgufBytes& array(std::string_view name, uint32_t element_type, uint64_t count, std::string_view encoded) {
    return key(name, 9, pod(element_type) + pod(count) + std::string(encoded));
  }

  GgufBytes& tensor(std::string_view name, const std::vector<uint64_t>& dims, uint32_t type, uint64_t offset) {
    std::string info = str(name) + pod(static_cast<uint32_t>(dims.size()));
    for (const uint64_t dim : dims) {
      info += pod(dim);
    }
    tensors_.push_back(info + pod(type) + pod(offset));
    return *this;
  }
  GgufBytes& data(std::string_view bytes) {
    data_ += bytes;
    return *this;
  }

  // Counts are what was added unless given.
  [[nodiscard]] std::string build() const { return build(tensors_.size(), keys_.size()); }
  [[nodiscard]] std::string build(uint64_t n_tensors, uint64_t n_keys) const {
    std::string out = "GGUF" + pod(version) + pod(n_tensors) + pod(n_keys);
    for (const std::string& key : keys_) {
      out += key;
    }
    for (const std::string& tensor : tensors_) {
      out += tensor;
    }
    if (!data_.empty()) {
      out.append((alignment - out.size() % alignment) % alignment, '\0');
    }
    return out + data_;
  }

 private:
  std::vector<std::string> keys_;
  std::vector<std::string> tensors_;
  std::string data_;
};

}  // namespace fathom::test
