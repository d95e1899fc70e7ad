#include "safetensors/safetensors_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <utility>

#include "core/check.h"
#include "core/error.h"
#include "core/printable.h"
#include "safetensors/header.h"

namespace fathom {
namespace {

static_assert(std::endian::native == std::endian::little, "safetensors are read in place");

// The reference implementation's limit.
constexpr uint64_t kMaxHeaderBytes = 100'000'000;

// In the order of SafetensorsDType, so that an enumerator is an index.
constexpr std::array kDTypes = {
    SafetensorsDTypeInfo{SafetensorsDType::kBool, "BOOL", 1},
    SafetensorsDTypeInfo{SafetensorsDType::kU8, "U8", 1},
    SafetensorsDTypeInfo{SafetensorsDType::kI8, "I8", 1},
    SafetensorsDTypeInfo{SafetensorsDType::kF8_E4M3, "F8_E4M3", 1},
    SafetensorsDTypeInfo{SafetensorsDType::kF8_E5M2, "F8_E5M2", 1},
    SafetensorsDTypeInfo{SafetensorsDType::kF8_E8M0, "F8_E8M0", 1},
    SafetensorsDTypeInfo{SafetensorsDType::kU16, "U16", 2},
    SafetensorsDTypeInfo{SafetensorsDType::kI16, "I16", 2},
    SafetensorsDTypeInfo{SafetensorsDType::kF16, "F16", 2},
    SafetensorsDTypeInfo{SafetensorsDType::kBF16, "BF16", 2},
    SafetensorsDTypeInfo{SafetensorsDType::kU32, "U32", 4},
    SafetensorsDTypeInfo{SafetensorsDType::kI32, "I32", 4},
    SafetensorsDTypeInfo{SafetensorsDType::kF32, "F32", 4},
    SafetensorsDTypeInfo{SafetensorsDType::kU64, "U64", 8},
    SafetensorsDTypeInfo{SafetensorsDType::kI64, "I64", 8},
    SafetensorsDTypeInfo{SafetensorsDType::kF64, "F64", 8},
};

[[noreturn]] void fail(const std::string& file, const std::string& what) {
  throw Error(ErrorCode::kBadModel, fmt::format("{}: {}", file, what));
}

struct Sections {
  std::string_view header;
  std::span<const std::byte> data;
};

Sections split_sections(std::span<const std::byte> bytes, const std::string& file) {
  uint64_t header_bytes = 0;
  if (bytes.size() < sizeof(header_bytes)) {
    fail(file,
         fmt::format("not a safetensors file: {} bytes, expected at least {}", bytes.size(), sizeof(header_bytes)));
  }
  std::memcpy(&header_bytes, bytes.data(), sizeof(header_bytes));
  const std::span<const std::byte> rest = bytes.subspan(sizeof(header_bytes));
  if (header_bytes > kMaxHeaderBytes) {
    fail(file, fmt::format("not a safetensors file: a header of {} bytes, expected at most {}", header_bytes,
                           kMaxHeaderBytes));
  }
  if (header_bytes > rest.size()) {
    fail(file,
         fmt::format("a header of {} bytes, but {} bytes follow: truncated or damaged", header_bytes, rest.size()));
  }
  return {{reinterpret_cast<const char*>(rest.data()), header_bytes}, rest.subspan(header_bytes)};
}

uint64_t shape_bytes(const SafetensorsEntry& entry, const std::string& file) {
  uint64_t n_bytes = static_cast<uint64_t>(safetensors_dtype_info(entry.dtype).n_bytes);
  if (std::find(entry.shape.begin(), entry.shape.end(), 0U) != entry.shape.end()) {
    return 0;
  }
  for (const uint64_t dim : entry.shape) {
    if (dim > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()) / n_bytes) {
      fail(file,
           fmt::format("tensor {}: the size of shape {} overflows", printable(entry.name), shape_text(entry.shape)));
    }
    n_bytes *= dim;
  }
  return n_bytes;
}

void check_entry(const SafetensorsEntry& entry, uint64_t data_bytes, const std::string& file) {
  if (entry.begin > entry.end || entry.end > data_bytes) {
    fail(file, fmt::format("tensor {}: bytes {} to {}, but the file holds {} bytes of data: truncated or damaged",
                           printable(entry.name), entry.begin, entry.end, data_bytes));
  }
  const uint64_t expected = shape_bytes(entry, file);
  if (entry.end - entry.begin != expected) {
    fail(file, fmt::format("tensor {}: {} bytes, expected {} for shape {} of {}", printable(entry.name),
                           entry.end - entry.begin, expected, shape_text(entry.shape),
                           safetensors_dtype_info(entry.dtype).name));
  }
}

void check_no_overlap(const std::vector<SafetensorsEntry>& entries, const std::string& file) {
  std::vector<const SafetensorsEntry*> by_offset;
  for (const SafetensorsEntry& entry : entries) {
    if (entry.begin != entry.end) {
      by_offset.push_back(&entry);
    }
  }
  std::sort(by_offset.begin(), by_offset.end(),
            [](const SafetensorsEntry* a, const SafetensorsEntry* b) { return a->begin < b->begin; });
  for (size_t i = 1; i < by_offset.size(); ++i) {
    if (by_offset[i - 1]->end > by_offset[i]->begin) {
      fail(file, fmt::format("tensors {} and {} overlap at byte {} of the data", printable(by_offset[i - 1]->name),
                             printable(by_offset[i]->name), by_offset[i]->begin));
    }
  }
}

}  // namespace

const SafetensorsDTypeInfo& safetensors_dtype_info(SafetensorsDType dtype) noexcept {
  const auto index = static_cast<size_t>(dtype);
  FATHOM_CHECK(index < kDTypes.size() && kDTypes[index].dtype == dtype, "not a SafetensorsDType");
  return kDTypes[index];
}

std::optional<SafetensorsDType> safetensors_dtype_from_name(std::string_view name) noexcept {
  for (const SafetensorsDTypeInfo& info : kDTypes) {
    if (info.name == name) {
      return info.dtype;
    }
  }
  return std::nullopt;
}

std::string shape_text(std::span<const uint64_t> shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

SafetensorsFile SafetensorsFile::open(const std::string& path) {
  FileMap map(path);
  const auto bytes = map.bytes();
  return {std::move(map), bytes, path};
}

SafetensorsFile SafetensorsFile::parse(std::span<const std::byte> bytes, std::string name) {
  return {FileMap(), bytes, std::move(name)};
}

SafetensorsFile::SafetensorsFile(FileMap map, std::span<const std::byte> bytes, std::string path)
    : path_(std::move(path)), map_(std::move(map)) {
  const Sections sections = split_sections(bytes, path_);
  std::vector<SafetensorsEntry> entries = parse_safetensors_header(sections.header, path_);
  for (const SafetensorsEntry& entry : entries) {
    check_entry(entry, sections.data.size(), path_);
  }
  check_no_overlap(entries, path_);
  for (SafetensorsEntry& entry : entries) {
    tensors_.push_back({std::move(entry.name), entry.dtype, std::move(entry.shape),
                        sections.data.subspan(entry.begin, entry.end - entry.begin)});
  }
  for (size_t i = 0; i < tensors_.size(); ++i) {
    index_.emplace(tensors_[i].name, i);
  }
}

const SafetensorsTensor* SafetensorsFile::find(std::string_view name) const noexcept {
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : &tensors_[found->second];
}

}  // namespace fathom
