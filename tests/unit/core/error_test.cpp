#include "core/error.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "core/check.h"

namespace fathom {
namespace {

TEST(Error, CarriesCodeAndText) {
  const Error error(ErrorCode::kIo, "model.gguf: cannot open");
  EXPECT_EQ(error.code(), ErrorCode::kIo);
  EXPECT_STREQ(error.what(), "model.gguf: cannot open");
}

TEST(Error, NamesAreStableForClients) {
  EXPECT_EQ(error_code_name(ErrorCode::kBadModel), "bad_model");
  EXPECT_EQ(error_code_name(ErrorCode::kBadRequest), "bad_request");
  EXPECT_EQ(error_code_name(ErrorCode::kContextExhausted), "context_exhausted");
}

TEST(Error, EveryCodeHasItsOwnName) {
  std::set<std::string> names;
  const int n_codes = static_cast<int>(ErrorCode::kCacheFull) + 1;
  for (int i = 0; i < n_codes; ++i) {
    names.emplace(error_code_name(static_cast<ErrorCode>(i)));
  }
  EXPECT_EQ(names.size(), static_cast<size_t>(n_codes));
  EXPECT_EQ(names.count("unknown"), 0U);
}

TEST(CheckDeathTest, AbortsWithConditionAndReason) {
  EXPECT_DEATH(FATHOM_CHECK(1 + 1 == 3, "arithmetic"),
               "error_test.cpp:[0-9]+: check failed: 1 \\+ 1 == 3 \\(arithmetic\\)");
}

}  // namespace
}  // namespace fathom
