// The fathom program as a user meets it.
#pragma once

#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/file_bytes.h"
#include "support/process.h"

namespace fathom::test {

inline ProcessResult fathom(std::vector<std::string> arguments, const std::string& input = {}) {
  arguments.insert(arguments.begin(), FATHOM_PROGRAM);
  return run_process(arguments, {.input = input, .timeout_s = 120});
}

// A float32 matrix from a .npy file as NumPy lays it out.
struct NpyMatrix {
  size_t rows = 0;
  size_t cols = 0;
  std::vector<float> values;

  [[nodiscard]] const float* row(size_t r) const { return values.data() + r * cols; }
};

inline NpyMatrix read_npy(const std::string& path) {
  const std::string bytes = read_file_bytes(path);
  const size_t length = static_cast<unsigned char>(bytes.at(8)) + 256U * static_cast<unsigned char>(bytes.at(9));
  const std::string header = bytes.substr(10, length);
  NpyMatrix matrix;
  if (std::sscanf(header.c_str(), "{'descr': '<f4', 'fortran_order': False, 'shape': (%zu, %zu), }", &matrix.rows,
                  &matrix.cols) != 2 ||
      bytes.size() != 10 + length + 4 * matrix.rows * matrix.cols) {
    throw std::runtime_error(path + ": not a float32 matrix");
  }
  matrix.values.resize(matrix.rows * matrix.cols);
  std::memcpy(matrix.values.data(), bytes.data() + 10 + length, 4 * matrix.values.size());
  return matrix;
}

}  // namespace fathom::test
