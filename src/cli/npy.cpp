#include "cli/npy.h"

#include <fmt/format.h>

#include <bit>

#include "core/check.h"

namespace fathom::cli {

static_assert(std::endian::native == std::endian::little, "values are written as they lie in memory");

NpyWriter::NpyWriter(const std::string& path, uint64_t rows, uint64_t cols) : file_(path), missing_(rows * cols) {
  const std::string head = header(rows, cols);
  file_.write(std::as_bytes(std::span(head)));
}

void NpyWriter::append(std::span<const float> values) {
  FATHOM_CHECK(values.size() <= missing_, "more values than the header announces");
  file_.write(std::as_bytes(values));
  missing_ -= values.size();
}

void NpyWriter::commit() {
  FATHOM_CHECK(missing_ == 0, "fewer values than the header announces");
  file_.commit();
}

std::string NpyWriter::header(uint64_t rows, uint64_t cols) {
  constexpr size_t kAlignment = 64;
  constexpr size_t kPrefix = 10;  // magic, version, length of the dictionary
  std::string dictionary = fmt::format("{{'descr': '<f4', 'fortran_order': False, 'shape': ({}, {}), }}", rows, cols);
  const size_t unpadded = kPrefix + dictionary.size() + 1;
  dictionary.append((kAlignment - unpadded % kAlignment) % kAlignment, ' ');
  dictionary += '\n';
  std::string head("\x93NUMPY\x01\x00", 8);
  head += static_cast<char>(dictionary.size() & 0xff);
  head += static_cast<char>(dictionary.size() >> 8);
  return head + dictionary;
}

}  // namespace fathom::cli
