#include "cli/saved_logits.h"

#include <gtest/gtest.h>

#include "support/expect_error.h"
#include "support/temp_dir.h"

namespace fathom::cli {
namespace {

constexpr int kWindow = 8;

class SavedLogitsTest : public testing::Test {
 protected:
  SavedLogitsTest() {
    SavedLogitsWriter writer(path_, kWindow, tokens_, 3);
    writer.append(std::vector<float>{1, 2, 3});
    writer.append(std::vector<float>{4, 5, 6});
    writer.commit();
  }

  test::TempDir dir_;
  std::string path_ = dir_.file("logits");
  std::vector<TokenId> tokens_{2, 0};
};

TEST_F(SavedLogitsTest, ComeBackRowByRow) {
  const SavedLogits saved(path_, kWindow, tokens_, 3);
  std::vector<float> row(3);
  saved.read_row(1, row);
  EXPECT_EQ(row, (std::vector<float>{4, 5, 6}));
  saved.read_row(0, row);
  EXPECT_EQ(row, (std::vector<float>{1, 2, 3}));
}

TEST_F(SavedLogitsTest, AreAnOrdinarySafetensorsFile) {
  const SafetensorsFile file = SafetensorsFile::open(path_);
  EXPECT_EQ(file.find("tokens")->shape, (std::vector<uint64_t>{2}));
  EXPECT_EQ(file.find("logits")->shape, (std::vector<uint64_t>{2, 3}));
}

TEST_F(SavedLogitsTest, BelongToOneTextAndVocabulary) {
  const std::vector<TokenId> other{2, 1};
  EXPECT_ERROR(SavedLogits(path_, kWindow, other, 3), ErrorCode::kBadRequest, "logits of another text");
  const std::vector<TokenId> longer{2, 0, 1};
  EXPECT_ERROR(SavedLogits(path_, kWindow, longer, 3), ErrorCode::kBadRequest,
               "tokens [2], but this text and model give [3]");
  EXPECT_ERROR(SavedLogits(path_, kWindow, tokens_, 4), ErrorCode::kBadRequest, "logits [2, 3], but");
}

TEST_F(SavedLogitsTest, BelongToOneWindow) {
  EXPECT_ERROR(SavedLogits(path_, kWindow + 1, tokens_, 3), ErrorCode::kBadRequest,
               "logits of windows of 8 tokens, expected 9");
}

TEST_F(SavedLogitsTest, AreNotSeenBeforeTheyAreComplete) {
  const std::string path = dir_.file("other");
  { const SavedLogitsWriter unfinished(path, kWindow, tokens_, 3); }
  EXPECT_ERROR(SavedLogits(path, kWindow, tokens_, 3), ErrorCode::kIo, path);
}

}  // namespace
}  // namespace fathom::cli
