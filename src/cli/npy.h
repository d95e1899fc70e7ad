// NumPy's .npy format, for logits: one float32 matrix, C order, little endian.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "core/atomic_file.h"

namespace fathom::cli {

// Writes the matrix row by row; the file appears when commit() is called, complete. Owns the file.
class NpyWriter {
 public:
  // Throws Error kIo.
  NpyWriter(const std::string& path, uint64_t rows, uint64_t cols);

  void append(std::span<const float> values);  // any number of them; throws kIo
  // Throws kIo. Precondition: rows * cols values were appended.
  void commit();

  // The bytes before the data: magic, version 1.0, padded so that the data starts at a multiple of 64.
  [[nodiscard]] static std::string header(uint64_t rows, uint64_t cols);

 private:
  AtomicFile file_;
  uint64_t missing_;
};

}  // namespace fathom::cli
