#include "model/config_reader.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "support/expect_error.h"
#include "support/safetensors_builder.h"
#include "support/temp_dir.h"
#include "weights/weight_source.h"

namespace fathom {
namespace {

const std::filesystem::path kOracle = std::filesystem::path(FATHOM_TEST_DATA_DIR) / "oracle";

TEST(ReadConfig, ReadsTheFileBesideTheWeights) {
  for (const std::string& path : {(kOracle / "mini").string(), (kOracle / "mini" / "").string(),
                                  (kOracle / "mini/official.safetensors").string()}) {
    const ModelConfig config = read_config(*WeightSource::open(path));
    EXPECT_EQ(config.n_layers, 5);
    EXPECT_EQ(config.name, path.ends_with(".safetensors") ? "official" : "mini");
  }
}

TEST(ReadConfig, ReadsTheBundledModel) {
  const auto dir = std::filesystem::path(FATHOM_SHARED_DIR) / "model";
  if (!std::filesystem::exists(dir)) {
    GTEST_SKIP() << dir << " is absent: no trained model to read";
  }
  const ModelConfig config = read_config(*WeightSource::open(dir.string()));
  EXPECT_EQ(config.head_dim, 512);
  EXPECT_EQ(config.compress_ratios, (std::vector<int>{0, 0, 4, 128, 4}));
}

TEST(ReadConfig, AsksForAConfig) {
  const test::TempDir dir;
  test::SafetensorsBuilder builder;
  dir.write("model.safetensors", builder.add("norm.weight", SafetensorsDType::kF32, {4}).image());
  EXPECT_ERROR((void)read_config(*WeightSource::open(dir.path().string())), ErrorCode::kBadModel,
               "config.json: missing or empty, expected the model's config beside its weights");
  dir.write("config.json", "{}");
  EXPECT_ERROR((void)read_config(*WeightSource::open(dir.path().string())), ErrorCode::kBadModel,
               "config.json: num_hidden_layers is missing");
}

}  // namespace
}  // namespace fathom
