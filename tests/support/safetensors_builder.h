// Collects tensors with bytes of their own and makes one safetensors image or weight source of them.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "safetensors/safetensors_writer.h"
#include "support/file_bytes.h"
#include "weights/safetensors_source.h"

namespace fathom::test {

class SafetensorsBuilder {
 public:
  // Bytes of a pattern that differs from tensor to tensor.
  SafetensorsBuilder& add(const std::string& name, SafetensorsDType dtype, const std::vector<uint64_t>& shape) {
    size_t n_bytes = static_cast<size_t>(safetensors_dtype_info(dtype).n_bytes);
    for (const uint64_t dim : shape) {
      n_bytes *= dim;
    }
    std::string bytes(n_bytes, '\0');
    for (size_t i = 0; i < n_bytes; ++i) {
      bytes[i] = static_cast<char>((i * 7 + tensors_.size() * 13 + 1) % 127);
    }
    return add(name, dtype, shape, bytes);
  }
  SafetensorsBuilder& add(const std::string& name, SafetensorsDType dtype, const std::vector<uint64_t>& shape,
                          const std::string& bytes) {
    bytes_.push_back(bytes);
    tensors_.push_back({name, dtype, shape, as_byte_span(bytes_.back())});
    return *this;
  }

  [[nodiscard]] std::string image() const { return encode_safetensors(tensors_); }
  [[nodiscard]] const std::string& bytes(size_t index) const { return bytes_[index]; }

  // The source refers to this builder's image, which it replaces at the next call.
  [[nodiscard]] std::unique_ptr<WeightSource> source() {
    image_ = image();
    return make_safetensors_source(
        SafetensorsModel::from_file(SafetensorsFile::parse(as_byte_span(image_), "m.safetensors")));
  }

 private:
  std::deque<std::string> bytes_;
  std::vector<SafetensorsTensor> tensors_;
  std::string image_;
};

}  // namespace fathom::test
