#include "safetensors/safetensors_writer.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "support/expect_error.h"
#include "support/file_bytes.h"
#include "support/safetensors_bytes.h"
#include "support/temp_dir.h"

namespace fathom {
namespace {

using test::as_byte_span;
using test::read_file_bytes;
using test::safetensors_bytes;
using test::TempDir;

TEST(SafetensorsWriter, WritesTheBytesOfTheFormat) {
  const std::string a = "abc";
  const std::string b = "01234567";
  const std::vector<SafetensorsTensor> tensors = {{"a", SafetensorsDType::kI8, {3}, as_byte_span(a)},
                                                  {"b", SafetensorsDType::kF32, {2, 1}, as_byte_span(b)}};
  // The wider type first, so that it is aligned; the header is padded to a multiple of 8.
  const std::string header = R"({"b":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]},)"
                             R"("a":{"dtype":"I8","shape":[3],"data_offsets":[8,11]}})";
  const std::string expected = safetensors_bytes(header + std::string(7 - (header.size() + 7) % 8, ' '), b + a);
  EXPECT_EQ(encode_safetensors(tensors), expected);
  const TempDir dir;
  write_safetensors(dir.file("m.safetensors"), tensors);
  EXPECT_EQ(read_file_bytes(dir.file("m.safetensors")), expected);

  const SafetensorsFile file = SafetensorsFile::open(dir.file("m.safetensors"));
  EXPECT_EQ(file.find("a")->shape, (std::vector<uint64_t>{3}));
  EXPECT_EQ(std::memcmp(file.find("b")->bytes.data(), b.data(), b.size()), 0);
}

TEST(SafetensorsWriterDeathTest, ChecksItsCaller) {
  const std::string data = "abcd";
  const std::vector<SafetensorsTensor> twice(2, {"a", SafetensorsDType::kF32, {1}, as_byte_span(data)});
  EXPECT_DEATH((void)encode_safetensors(twice), "tensor names are distinct");
  const std::vector<SafetensorsTensor> short_data = {{"a", SafetensorsDType::kF32, {2}, as_byte_span(data)}};
  EXPECT_DEATH((void)encode_safetensors(short_data), "the bytes of the shape");
}

}  // namespace
}  // namespace fathom
