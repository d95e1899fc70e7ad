#include "gguf/gguf_writer.h"

#include <array>
#include <unordered_set>
#include <utility>

#include "core/check.h"
#include "gguf/gguf_file.h"
#include "gguf/gguf_parse.h"

namespace fathom {
namespace {

constexpr uint32_t kVersion = 3;
constexpr uint64_t kAlignment = kGgufDefaultAlignment;

template <class T>
void append(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof(T));
}

void append_string(std::string& out, std::string_view text) {
  append<uint64_t>(out, text.size());
  out += text;
}

uint64_t padding(uint64_t position) { return (kAlignment - position % kAlignment) % kAlignment; }

template <class T>
GgufKv scalar(std::string key, GgufType type, T value) {
  GgufKv kv{std::move(key), type, type, 1, {}};
  append(kv.bytes, value);
  return kv;
}

template <class T>
GgufKv array(std::string key, GgufType element_type, std::span<const T> values) {
  GgufKv kv{std::move(key), GgufType::kArray, element_type, values.size(), {}};
  kv.bytes.assign(reinterpret_cast<const char*>(values.data()), values.size_bytes());
  return kv;
}

std::string encode_header(std::span<const GgufKv> metadata, std::span<const GgufTensorInfo> tensors) {
  std::string out;
  append<uint32_t>(out, kGgufMagic);
  append<uint32_t>(out, kVersion);
  append<uint64_t>(out, tensors.size());
  append<uint64_t>(out, metadata.size());
  for (const GgufKv& kv : metadata) {
    append_string(out, kv.key);
    append<uint32_t>(out, static_cast<uint32_t>(kv.type));
    if (kv.type == GgufType::kArray) {
      append<uint32_t>(out, static_cast<uint32_t>(kv.element_type));
      append<uint64_t>(out, kv.count);
    }
    out += kv.bytes;
  }
  uint64_t offset = 0;
  for (const GgufTensorInfo& tensor : tensors) {
    append_string(out, tensor.name);
    append<uint32_t>(out, static_cast<uint32_t>(tensor.dims.size()));
    for (const uint64_t dim : tensor.dims) {
      append<uint64_t>(out, dim);
    }
    append<uint32_t>(out, static_cast<uint32_t>(dtype_info(tensor.dtype).ggml_type));
    append<uint64_t>(out, offset);
    offset += tensor.n_bytes();
    offset += padding(offset);
  }
  out.append(padding(out.size()), '\0');
  return out;
}

void check_distinct(std::span<const GgufKv> metadata, std::span<const GgufTensorInfo> tensors) {
  std::unordered_set<std::string_view> seen = {kGgufAlignmentKey};
  for (const GgufKv& kv : metadata) {
    FATHOM_CHECK(seen.insert(kv.key).second, "metadata keys are distinct, and alignment is the writer's");
  }
  seen.clear();
  for (const GgufTensorInfo& tensor : tensors) {
    FATHOM_CHECK(seen.insert(tensor.name).second, "tensor names are distinct");
  }
}

}  // namespace

GgufKv GgufKv::u32(std::string key, uint32_t value) { return scalar(std::move(key), GgufType::kU32, value); }
GgufKv GgufKv::u16(std::string key, uint16_t value) { return scalar(std::move(key), GgufType::kU16, value); }
GgufKv GgufKv::i32(std::string key, int32_t value) { return scalar(std::move(key), GgufType::kI32, value); }
GgufKv GgufKv::f32(std::string key, float value) { return scalar(std::move(key), GgufType::kF32, value); }

GgufKv GgufKv::boolean(std::string key, bool value) {
  return scalar<uint8_t>(std::move(key), GgufType::kBool, value ? 1 : 0);
}

GgufKv GgufKv::string(std::string key, std::string_view value) {
  GgufKv kv{std::move(key), GgufType::kString, GgufType::kString, 1, {}};
  append_string(kv.bytes, value);
  return kv;
}

GgufKv GgufKv::u32s(std::string key, std::span<const uint32_t> values) {
  return array(std::move(key), GgufType::kU32, values);
}

GgufKv GgufKv::i32s(std::string key, std::span<const int32_t> values) {
  return array(std::move(key), GgufType::kI32, values);
}

GgufKv GgufKv::f32s(std::string key, std::span<const float> values) {
  return array(std::move(key), GgufType::kF32, values);
}

GgufKv GgufKv::strings(std::string key, std::span<const std::string_view> values) {
  GgufKv kv{std::move(key), GgufType::kArray, GgufType::kString, values.size(), {}};
  for (const std::string_view value : values) {
    append_string(kv.bytes, value);
  }
  return kv;
}

GgufKv GgufKv::copy(const GgufValue& value) {
  const auto bytes = value.bytes();
  return {std::string(value.key()), value.type(), value.element_type(), value.count(),
          std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size())};
}

std::vector<GgufKv> copy_metadata(const GgufFile& file) {
  std::vector<GgufKv> copies;
  for (const GgufValue& value : file.metadata()) {
    if (value.key() != kGgufAlignmentKey && !value.key().starts_with("split.")) {
      copies.push_back(GgufKv::copy(value));
    }
  }
  return copies;
}

uint64_t GgufTensorInfo::n_bytes() const {
  uint64_t n_bytes = dtype_row_bytes(dtype, static_cast<int64_t>(dims.front()));
  for (size_t i = 1; i < dims.size(); ++i) {
    n_bytes *= dims[i];
  }
  return n_bytes;
}

GgufWriter::GgufWriter(std::string path, std::span<const GgufKv> metadata, std::vector<GgufTensorInfo> tensors)
    : tensors_(std::move(tensors)), file_(std::move(path)) {
  check_distinct(metadata, tensors_);
  for (const GgufTensorInfo& tensor : tensors_) {
    const DTypeInfo& info = dtype_info(tensor.dtype);
    FATHOM_CHECK(info.ggml_type >= 0, "a type that GGUF has");
    FATHOM_CHECK(!tensor.dims.empty() && tensor.dims.size() <= 4, "1 to 4 dimensions");
    FATHOM_CHECK(tensor.dims.front() % static_cast<uint64_t>(info.block_size) == 0, "rows are whole blocks");
    FATHOM_CHECK(tensor.n_bytes() > 0, "a tensor has elements");
  }
  file_.write(std::as_bytes(std::span<const char>(encode_header(metadata, tensors_))));
  remaining_ = tensors_.empty() ? 0 : tensors_.front().n_bytes();
}

void GgufWriter::write(std::span<const std::byte> bytes) {
  FATHOM_CHECK(bytes.size() <= remaining_, "a piece ends within its tensor");
  file_.write(bytes);
  remaining_ -= bytes.size();
  if (remaining_ == 0 && current_ < tensors_.size()) {
    advance();
  }
}

void GgufWriter::advance() {
  constexpr std::array<std::byte, kAlignment> kZeros{};
  file_.write(std::span(kZeros).first(padding(tensors_[current_].n_bytes())));
  ++current_;
  remaining_ = current_ < tensors_.size() ? tensors_[current_].n_bytes() : 0;
}

void GgufWriter::finish() {
  FATHOM_CHECK(current_ == tensors_.size(), "every tensor was written");
  file_.commit();
}

const GgufTensorInfo* GgufWriter::current() const { return current_ < tensors_.size() ? &tensors_[current_] : nullptr; }

}  // namespace fathom
