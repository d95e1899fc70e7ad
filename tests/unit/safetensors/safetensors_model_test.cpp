#include "safetensors/safetensors_model.h"

#include <gtest/gtest.h>

#include <string>

#include "support/expect_error.h"
#include "support/safetensors_bytes.h"
#include "support/temp_dir.h"

namespace fathom {
namespace {

using test::safetensors_bytes;
using test::TempDir;

std::string one_tensor(const std::string& name) {
  return safetensors_bytes("{\"" + name + R"(": {"dtype": "U8", "shape": [4], "data_offsets": [0, 4]}})", name + name);
}

class SafetensorsDirectory : public ::testing::Test {
 protected:
  void SetUp() override {
    dir_.write("m-00001-of-00002.safetensors", one_tensor("aa"));
    dir_.write("m-00002-of-00002.safetensors", one_tensor("bb"));
    write_index(R"({"aa": "m-00001-of-00002.safetensors", "bb": "m-00002-of-00002.safetensors"})");
  }
  void write_index(const std::string& weight_map) {
    dir_.write("model.safetensors.index.json", R"({"metadata": {"total_size": 8}, "weight_map": )" + weight_map + "}");
  }
  [[nodiscard]] SafetensorsModel open() const { return SafetensorsModel::open(dir_.path().string()); }
  void expect_bad(std::string_view message) const { EXPECT_ERROR((void)open(), ErrorCode::kBadModel, message); }

  TempDir dir_;
};

TEST_F(SafetensorsDirectory, OpensAllFilesOfTheIndex) {
  const SafetensorsModel model = open();
  EXPECT_EQ(model.path(), dir_.path().string());
  EXPECT_EQ(model.files().size(), 2U);
  ASSERT_EQ(model.tensors().size(), 2U);
  EXPECT_EQ(model.find("bb")->tensor->name, "bb");
  EXPECT_EQ(model.find("bb")->file, &model.files()[1]);
  EXPECT_EQ(model.find("cc"), nullptr);
}

TEST_F(SafetensorsDirectory, PrefersTheIndexToASingleFile) {
  dir_.write("model.safetensors", one_tensor("cc"));
  EXPECT_EQ(open().find("cc"), nullptr);
  std::filesystem::remove(dir_.file("model.safetensors.index.json"));
  EXPECT_NE(open().find("cc"), nullptr);
}

TEST_F(SafetensorsDirectory, OpensASingleFile) {
  const SafetensorsModel model = SafetensorsModel::open(dir_.write("any.safetensors", one_tensor("cc")));
  EXPECT_EQ(model.tensors().size(), 1U);
}

TEST_F(SafetensorsDirectory, AsksForTheDirectoryOfAPart) {
  EXPECT_ERROR((void)SafetensorsModel::open(dir_.file("m-00001-of-00002.safetensors")), ErrorCode::kBadModel,
               "m-00001-of-00002.safetensors: is one part of a model, expected its directory");
}

TEST_F(SafetensorsDirectory, NamesWhatIsMissing) {
  std::filesystem::remove(dir_.file("m-00002-of-00002.safetensors"));
  EXPECT_ERROR((void)open(), ErrorCode::kIo, "m-00002-of-00002.safetensors: cannot open: No such file");
  std::filesystem::remove(dir_.file("model.safetensors.index.json"));
  EXPECT_ERROR((void)open(), ErrorCode::kIo, ": holds neither model.safetensors.index.json nor model.safetensors");
  EXPECT_ERROR((void)SafetensorsModel::open(dir_.file("absent")), ErrorCode::kIo, "absent: cannot open: No such file");
}

TEST_F(SafetensorsDirectory, RefusesAnIndexThatIsNone) {
  dir_.write("model.safetensors.index.json", "[]");
  expect_bad("model.safetensors.index.json: no weight_map, expected an object: tensor -> file");
  dir_.write("model.safetensors.index.json", R"({"weight_map": 1})");
  expect_bad("no weight_map, expected an object");
  write_index("{}");
  expect_bad("no weight_map, expected an object");
  dir_.write("model.safetensors.index.json", "{");
  expect_bad("model.safetensors.index.json: not valid JSON: parse error at line 1");
  write_index(R"({"aa": 5})");
  expect_bad("weight_map sends tensor aa to 5, expected a file name");
  std::filesystem::resize_file(dir_.file("model.safetensors.index.json"), (64 << 20) + 1);
  expect_bad("67108865 bytes, expected at most 67108864");
}

TEST_F(SafetensorsDirectory, StaysInTheDirectory) {
  for (const std::string name : {"../other.safetensors", "/etc/passwd", "..", ".", "", "a\\u0000b"}) {
    write_index("{\"aa\": \"" + name + "\"}");
    expect_bad("weight_map sends tensor aa to \"");
  }
}

TEST_F(SafetensorsDirectory, RefusesAnIndexThatDisagrees) {
  write_index(R"({"aa": "m-00002-of-00002.safetensors", "bb": "m-00002-of-00002.safetensors"})");
  expect_bad("tensor aa should be in m-00002-of-00002.safetensors, but is missing");
  write_index(R"({"aa": "m-00002-of-00002.safetensors", "bb": "m-00001-of-00002.safetensors"})");
  expect_bad("tensor aa should be in m-00002-of-00002.safetensors, but is in m-00001-of-00002.safetensors");
  dir_.write("m-00001-of-00002.safetensors",
             safetensors_bytes(R"({"aa": {"dtype": "U8", "shape": [4], "data_offsets": [0, 4]},
                                   "cc": {"dtype": "U8", "shape": [4], "data_offsets": [4, 8]}})",
                               "aaaacccc"));
  write_index(R"({"aa": "m-00001-of-00002.safetensors", "bb": "m-00002-of-00002.safetensors"})");
  expect_bad("tensor cc of m-00001-of-00002.safetensors is not listed");
}

TEST_F(SafetensorsDirectory, RefusesATensorInTwoFiles) {
  dir_.write("m-00002-of-00002.safetensors", one_tensor("aa"));
  expect_bad("m-00002-of-00002.safetensors: tensor aa is also in ");
}

}  // namespace
}  // namespace fathom
