// Writes a GGUF file (version 3, alignment 32): all metadata and tensor descriptions first, then the data, streamed in
// pieces, so that no more than a piece is in memory. The file appears under its name only when it is complete.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/atomic_file.h"
#include "core/dtype.h"
#include "gguf/gguf_value.h"

namespace fathom {

class GgufFile;

// A metadata key with its encoded value; the factory's name is the type in the file.
struct GgufKv {
  std::string key;
  GgufType type = GgufType::kU32;
  GgufType element_type = GgufType::kU32;  // of an array; else the type
  uint64_t count = 1;
  std::string bytes;  // as GgufValue::bytes()

  [[nodiscard]] static GgufKv u32(std::string key, uint32_t value);
  [[nodiscard]] static GgufKv u16(std::string key, uint16_t value);
  [[nodiscard]] static GgufKv i32(std::string key, int32_t value);
  [[nodiscard]] static GgufKv f32(std::string key, float value);
  [[nodiscard]] static GgufKv boolean(std::string key, bool value);
  [[nodiscard]] static GgufKv string(std::string key, std::string_view value);
  [[nodiscard]] static GgufKv u32s(std::string key, std::span<const uint32_t> values);
  [[nodiscard]] static GgufKv i32s(std::string key, std::span<const int32_t> values);
  [[nodiscard]] static GgufKv f32s(std::string key, std::span<const float> values);
  [[nodiscard]] static GgufKv strings(std::string key, std::span<const std::string_view> values);
  [[nodiscard]] static GgufKv copy(const GgufValue& value);
};

// The metadata of `file` without the keys that describe the file rather than the model (alignment, split).
[[nodiscard]] std::vector<GgufKv> copy_metadata(const GgufFile& file);

struct GgufTensorInfo {
  std::string name;
  DType dtype = DType::kF32;   // one that exists in GGUF
  std::vector<uint64_t> dims;  // 1 to 4, ggml order: dims[0] is contiguous and a multiple of the block size

  [[nodiscard]] uint64_t n_bytes() const;
};

class GgufWriter {
 public:
  // Writes the header. Keys and tensor names are distinct; general.alignment is the writer's. Throws kIo.
  GgufWriter(std::string path, std::span<const GgufKv> metadata, std::vector<GgufTensorInfo> tensors);

  // The next bytes of the current tensor, which may come in pieces but not beyond its end. Tensors follow each other
  // in the order given to the constructor. Throws kIo.
  void write(std::span<const std::byte> bytes);
  // Publishes the file; every tensor must be complete. Throws kIo. Without it the destructor leaves nothing behind.
  void finish();

  // The tensor that write() continues, and its missing bytes; nullptr and 0 when all are complete.
  [[nodiscard]] const GgufTensorInfo* current() const;
  [[nodiscard]] uint64_t remaining() const { return remaining_; }

 private:
  void advance();  // to the next tensor, padding the one that is complete

  std::vector<GgufTensorInfo> tensors_;
  size_t current_ = 0;
  uint64_t remaining_ = 0;
  AtomicFile file_;
};

}  // namespace fathom
