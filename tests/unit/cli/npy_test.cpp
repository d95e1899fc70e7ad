#include "cli/npy.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <vector>

#include "cli/text_io.h"
#include "support/expect_error.h"
#include "support/temp_dir.h"

namespace fathom::cli {
namespace {

TEST(Npy, HeaderIsTheFormatsOwn) {
  // Layout of numpy.lib.format, version 1.0.
  const std::string header = NpyWriter::header(300, 129280);
  ASSERT_EQ(header.size() % 64, 0U);
  EXPECT_EQ(header.substr(0, 8), std::string("\x93NUMPY\x01\x00", 8));
  const size_t length = static_cast<unsigned char>(header[8]) + 256U * static_cast<unsigned char>(header[9]);
  EXPECT_EQ(length, header.size() - 10);
  const std::string dictionary = "{'descr': '<f4', 'fortran_order': False, 'shape': (300, 129280), }";
  EXPECT_EQ(header.substr(10, dictionary.size()), dictionary);
  EXPECT_EQ(header.find_first_not_of(' ', 10 + dictionary.size()), header.size() - 1);
  EXPECT_EQ(header.back(), '\n');
}

TEST(Npy, HoldsRowsInOrder) {
  const test::TempDir dir;
  const std::string path = dir.file("m.npy");
  NpyWriter writer(path, 2, 3);
  writer.append(std::vector<float>{1, 2, 3, 4});
  writer.append(std::vector<float>{5, 6});
  EXPECT_FALSE(std::filesystem::exists(path)) << "nothing may be visible before commit";
  writer.commit();

  const std::string bytes = read_text(path);
  const size_t start = NpyWriter::header(2, 3).size();
  ASSERT_EQ(bytes.size(), start + 6 * sizeof(float));
  std::vector<float> values(6);
  std::memcpy(values.data(), bytes.data() + start, 6 * sizeof(float));
  EXPECT_EQ(values, (std::vector<float>{1, 2, 3, 4, 5, 6}));
}

TEST(Npy, ReportsAFolderThatDoesNotExist) {
  EXPECT_ERROR(NpyWriter("/nonexistent/m.npy", 1, 1), ErrorCode::kIo, "/nonexistent/m.npy");
}

}  // namespace
}  // namespace fathom::cli
