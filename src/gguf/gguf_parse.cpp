#include "gguf/gguf_parse.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <optional>
#include <string_view>
#include <unordered_set>

#include "core/error.h"
#include "core/printable.h"
#include "gguf/byte_cursor.h"

namespace fathom {
namespace {

constexpr uint32_t kMinVersion = 2;
constexpr uint32_t kMaxVersion = 3;
constexpr uint32_t kMaxDims = 4;
// Every element type may then be read in place.
constexpr int64_t kMinAlignment = 8;
constexpr int64_t kMaxAlignment = int64_t{1} << 20;
// The least a key (length, type, a one-byte value) and a tensor (length, dims, type, offset) can take: bounds a count
// by the size of the file before anything is read.
constexpr uint64_t kMinKeyBytes = 8 + 4 + 1;
constexpr uint64_t kMinTensorBytes = 8 + 4 + 8 + 4 + 8;

template <class... Args>
[[noreturn]] void fail(ErrorCode code, const std::string& file, fmt::format_string<Args...> format, Args&&... args) {
  throw Error(code, fmt::format("{}: {}", file, fmt::format(format, std::forward<Args>(args)...)));
}

// ggml types that exist but hold no weights here; naming them explains a refusal better than a number.
std::string_view foreign_type_name(uint32_t ggml_type) {
  struct Named {
    uint32_t type;
    std::string_view name;
  };
  constexpr std::array kNamed = {
      Named{4, "Q4_2"},        Named{5, "Q4_3"},        Named{9, "Q8_1"},        Named{15, "Q8_K"},
      Named{24, "I8"},         Named{25, "I16"},        Named{28, "F64"},        Named{31, "Q4_0_4_4"},
      Named{32, "Q4_0_4_8"},   Named{33, "Q4_0_8_8"},   Named{34, "TQ1_0"},      Named{35, "TQ2_0"},
      Named{36, "IQ4_NL_4_4"}, Named{37, "IQ4_NL_4_8"}, Named{38, "IQ4_NL_8_8"}, Named{40, "NVFP4"},
  };
  const auto* found = std::find_if(kNamed.begin(), kNamed.end(), [&](const Named& n) { return n.type == ggml_type; });
  return found == kNamed.end() ? "unknown" : found->name;
}

std::string supported_types() {
  std::string text;
  for (const DTypeInfo& info : all_dtypes()) {
    if (info.ggml_type >= 0) {
      text += text.empty() ? "" : ", ";
      text += info.name;
    }
  }
  return text;
}

struct Header {
  uint64_t n_tensors;
  uint64_t n_keys;
};

Header read_header(ByteCursor& cursor, const std::string& file) {
  cursor.enter("the header");
  const std::span<const std::byte> magic = cursor.take(sizeof(kGgufMagic));
  if (std::memcmp(magic.data(), &kGgufMagic, sizeof(kGgufMagic)) != 0) {
    fail(ErrorCode::kBadModel, file, "not a GGUF file: starts with \"{}\", expected \"GGUF\"",
         printable({reinterpret_cast<const char*>(magic.data()), magic.size()}));
  }
  const auto version = cursor.read<uint32_t>();
  if (version != 0 && (version & 0xffff) == 0) {
    fail(ErrorCode::kUnsupported, file, "big-endian GGUF, expected little-endian");
  }
  if (version < kMinVersion || version > kMaxVersion) {
    fail(ErrorCode::kUnsupported, file, "GGUF version {}, expected {} or {}", version, kMinVersion, kMaxVersion);
  }
  Header header{};
  header.n_tensors = cursor.read<uint64_t>();
  header.n_keys = cursor.read<uint64_t>();
  if (header.n_tensors > cursor.remaining() / kMinTensorBytes) {
    fail(ErrorCode::kBadModel, file, "header claims {} tensors, more than {} bytes can hold", header.n_tensors,
         cursor.remaining());
  }
  if (header.n_keys > cursor.remaining() / kMinKeyBytes) {
    fail(ErrorCode::kBadModel, file, "header claims {} metadata keys, more than {} bytes can hold", header.n_keys,
         cursor.remaining());
  }
  return header;
}

GgufType read_type(ByteCursor& cursor, const std::string& file, std::string_view key) {
  const auto type = cursor.read<uint32_t>();
  if (type >= kGgufTypeCount) {
    fail(ErrorCode::kBadModel, file, "{} has value type {}, expected 0 to {}", printable(key), type,
         kGgufTypeCount - 1);
  }
  return static_cast<GgufType>(type);
}

// Moves past `count` values of a type that is no array, and checks them.
void skip_values(ByteCursor& cursor, const std::string& file, std::string_view key, GgufType type, uint64_t count) {
  if (type == GgufType::kString) {
    for (uint64_t i = 0; i < count; ++i) {
      (void)cursor.read_string();
    }
    return;
  }
  const uint64_t element_bytes = gguf_type_bytes(type);
  if (count > cursor.remaining() / element_bytes) {
    fail(ErrorCode::kBadModel, file, "{} has {} {} values, but only {} bytes are left in the file", printable(key),
         count, gguf_type_name(type), cursor.remaining());
  }
  for (const std::byte value : cursor.take(count * element_bytes)) {
    if (type != GgufType::kBool) {
      break;
    }
    if (value > std::byte{1}) {
      fail(ErrorCode::kBadModel, file, "{} is a bool with the value {}, expected 0 or 1", printable(key),
           std::to_integer<int>(value));
    }
  }
}

GgufValue read_key_value(ByteCursor& cursor, const std::string& file, uint64_t index) {
  cursor.enter(fmt::format("the name of metadata key {}", index));
  const std::string_view key = cursor.read_string();
  if (key.empty()) {
    fail(ErrorCode::kBadModel, file, "metadata key {} has an empty name", index);
  }
  cursor.enter(fmt::format("the value of {}", printable(key)));
  const GgufType type = read_type(cursor, file, key);
  GgufType element_type = type;
  uint64_t count = 1;
  if (type == GgufType::kArray) {
    element_type = read_type(cursor, file, key);
    count = cursor.read<uint64_t>();
    if (element_type == GgufType::kArray) {
      fail(ErrorCode::kUnsupported, file, "{} is an array of arrays, expected an array of plain values",
           printable(key));
    }
  }
  const size_t start = cursor.position();
  skip_values(cursor, file, key, element_type, count);
  return GgufValue(file, key, type, element_type, count, cursor.since(start));
}

std::vector<GgufValue> read_metadata(ByteCursor& cursor, const std::string& file, uint64_t n_keys) {
  std::vector<GgufValue> metadata;
  std::unordered_set<std::string_view> seen;
  for (uint64_t i = 0; i < n_keys; ++i) {
    metadata.push_back(read_key_value(cursor, file, i));
    if (!seen.insert(metadata.back().key()).second) {
      fail(ErrorCode::kBadModel, file, "metadata key {} occurs twice", printable(metadata.back().key()));
    }
  }
  return metadata;
}

uint64_t read_alignment(const std::vector<GgufValue>& metadata, const std::string& file) {
  for (const GgufValue& value : metadata) {
    if (value.key() == kGgufAlignmentKey) {
      const auto alignment = static_cast<uint64_t>(value.to_int(kMinAlignment, kMaxAlignment));
      if (!std::has_single_bit(alignment)) {
        fail(ErrorCode::kBadModel, file, "{} is {}, expected a power of two", kGgufAlignmentKey, alignment);
      }
      return alignment;
    }
  }
  return kGgufDefaultAlignment;
}

struct TensorInfo {
  GgufTensor tensor;  // without its bytes
  uint64_t offset = 0;
  uint64_t n_bytes = 0;
};

// Bytes of the tensor; fails where the element count overflows or a row is not a whole number of blocks.
uint64_t tensor_bytes(const GgufTensor& tensor, const std::string& file) {
  const DTypeInfo& info = dtype_info(tensor.dtype);
  const auto block_size = static_cast<uint64_t>(info.block_size);
  if (tensor.dims[0] % block_size != 0) {
    fail(ErrorCode::kBadModel, file, "tensor {}: rows of {} elements, expected a multiple of {} for type {}",
         printable(tensor.name), tensor.dims[0], block_size, info.name);
  }
  // Divided first: a product of blocks then overflows only where no file could hold the bytes.
  uint64_t n_bytes = static_cast<uint64_t>(info.block_bytes);
  for (int i = 0; i < tensor.n_dims; ++i) {
    const uint64_t factor = i == 0 ? tensor.dims[0] / block_size : tensor.dims[static_cast<size_t>(i)];
    if (factor > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()) / n_bytes) {
      fail(ErrorCode::kBadModel, file, "tensor {}: its size overflows", printable(tensor.name));
    }
    n_bytes *= factor;
  }
  return n_bytes;
}

TensorInfo read_tensor_info(ByteCursor& cursor, const std::string& file, uint64_t index) {
  cursor.enter(fmt::format("the name of tensor {}", index));
  TensorInfo info;
  GgufTensor& tensor = info.tensor;
  tensor.name = cursor.read_string();
  if (tensor.name.empty()) {
    fail(ErrorCode::kBadModel, file, "tensor {} has an empty name", index);
  }
  cursor.enter(fmt::format("the description of tensor {}", printable(tensor.name)));
  const auto n_dims = cursor.read<uint32_t>();
  if (n_dims < 1 || n_dims > kMaxDims) {
    fail(ErrorCode::kBadModel, file, "tensor {}: {} dimensions, expected 1 to {}", printable(tensor.name), n_dims,
         kMaxDims);
  }
  tensor.n_dims = static_cast<int>(n_dims);
  for (uint32_t i = 0; i < n_dims; ++i) {
    tensor.dims[i] = cursor.read<uint64_t>();
    if (tensor.dims[i] == 0) {
      fail(ErrorCode::kBadModel, file, "tensor {}: dimension {} is 0", printable(tensor.name), i);
    }
  }
  const auto ggml_type = cursor.read<uint32_t>();
  const std::optional<DType> dtype = dtype_from_ggml(ggml_type);
  if (!dtype) {
    fail(ErrorCode::kUnsupported, file, "tensor {}: type {} ({}); supported are {}", printable(tensor.name), ggml_type,
         foreign_type_name(ggml_type), supported_types());
  }
  tensor.dtype = *dtype;
  info.offset = cursor.read<uint64_t>();
  info.n_bytes = tensor_bytes(tensor, file);
  return info;
}

std::vector<TensorInfo> read_tensor_infos(ByteCursor& cursor, const std::string& file, uint64_t n_tensors) {
  std::vector<TensorInfo> infos;
  std::unordered_set<std::string_view> seen;
  for (uint64_t i = 0; i < n_tensors; ++i) {
    infos.push_back(read_tensor_info(cursor, file, i));
    if (!seen.insert(infos.back().tensor.name).second) {
      fail(ErrorCode::kBadModel, file, "tensor {} occurs twice", printable(infos.back().tensor.name));
    }
  }
  return infos;
}

void check_no_overlap(const std::vector<TensorInfo>& infos, const std::string& file) {
  std::vector<const TensorInfo*> by_offset;
  by_offset.reserve(infos.size());
  for (const TensorInfo& info : infos) {
    by_offset.push_back(&info);
  }
  std::sort(by_offset.begin(), by_offset.end(),
            [](const TensorInfo* a, const TensorInfo* b) { return a->offset < b->offset; });
  for (size_t i = 1; i < by_offset.size(); ++i) {
    const TensorInfo& before = *by_offset[i - 1];
    const TensorInfo& after = *by_offset[i];
    if (before.offset + before.n_bytes > after.offset) {
      fail(ErrorCode::kBadModel, file, "tensors {} and {} overlap at byte {} of the data",
           printable(before.tensor.name), printable(after.tensor.name), after.offset);
    }
  }
}

// Gives every tensor its bytes. `data`: from the aligned end of the header to the end of the file.
std::vector<GgufTensor> place_tensors(const std::vector<TensorInfo>& infos, std::span<const std::byte> data,
                                      uint64_t alignment, const std::string& file) {
  std::vector<GgufTensor> tensors;
  for (const TensorInfo& info : infos) {
    if (info.offset % alignment != 0) {
      fail(ErrorCode::kBadModel, file, "tensor {}: offset {}, expected a multiple of {}", printable(info.tensor.name),
           info.offset, alignment);
    }
    if (info.offset > data.size() || info.n_bytes > data.size() - info.offset) {
      fail(ErrorCode::kBadModel, file,
           "tensor {}: {} bytes at byte {} of the data, but the file holds {} bytes of data: truncated or damaged",
           printable(info.tensor.name), info.n_bytes, info.offset, data.size());
    }
    tensors.push_back(info.tensor);
    tensors.back().bytes = data.subspan(info.offset, info.n_bytes);
  }
  return tensors;
}

}  // namespace

GgufImage parse_gguf(std::span<const std::byte> bytes, const std::string& file) {
  ByteCursor cursor(bytes, file);
  const Header header = read_header(cursor, file);
  GgufImage image;
  image.metadata = read_metadata(cursor, file, header.n_keys);
  const uint64_t alignment = read_alignment(image.metadata, file);
  const std::vector<TensorInfo> infos = read_tensor_infos(cursor, file, header.n_tensors);

  const size_t data_start = (cursor.position() + alignment - 1) / alignment * alignment;
  const auto data = data_start < bytes.size() ? bytes.subspan(data_start) : std::span<const std::byte>{};
  image.tensors = place_tensors(infos, data, alignment, file);
  check_no_overlap(infos, file);
  return image;
}

}  // namespace fathom
