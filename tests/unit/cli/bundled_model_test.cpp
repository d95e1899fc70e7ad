#include "cli/bundled_model.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "support/expect_error.h"
#include "support/temp_dir.h"

namespace fathom::cli {
namespace {

namespace fs = std::filesystem;

TEST(BundledModel, IsFoundFromABuildDirectory) {
  const test::TempDir dir;
  fs::create_directories(dir.path() / "models");
  const std::string model = dir.write("models/fathom-tiny.gguf", "x");
  EXPECT_EQ(find_bundled_model(dir.file("build/release/fathom")), model);
  EXPECT_EQ(find_bundled_model(dir.file("build/fathom")), model);
  EXPECT_EQ(find_bundled_model(dir.file("fathom")), model);
}

TEST(BundledModel, IsFoundInAnInstallation) {
  const test::TempDir dir;
  fs::create_directories(dir.path() / "share/fathom/models");
  const std::string model = dir.write("share/fathom/models/fathom-tiny.gguf", "x");
  EXPECT_EQ(find_bundled_model(dir.file("bin/fathom")), model);
}

TEST(BundledModel, ErrorListsEveryPlace) {
  const test::TempDir dir;
  const std::string executable = dir.file("bin/fathom");
  for (const std::string& place : bundled_model_candidates(executable)) {
    EXPECT_ERROR(static_cast<void>(find_bundled_model(executable)), ErrorCode::kIo, place);
  }
}

TEST(BundledModel, SearchEndsAtTheRoot) {
  EXPECT_EQ(bundled_model_candidates("/fathom").front(), "/models/fathom-tiny.gguf");
}

TEST(ExecutablePath, IsThisTest) { EXPECT_EQ(fs::path(executable_path()).filename(), "cli_test"); }

}  // namespace
}  // namespace fathom::cli
