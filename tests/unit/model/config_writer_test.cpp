#include "model/config_writer.h"

#include <gtest/gtest.h>

#include "gguf/gguf_file.h"
#include "gguf/gguf_writer.h"
#include "model/config_reader.h"
#include "support/file_bytes.h"
#include "support/temp_dir.h"

namespace fathom {
namespace {

ModelConfig through_gguf(const ModelConfig& config) {
  const test::TempDir dir;
  const std::string path = dir.file("config.gguf");
  GgufWriter(path, gguf_config_metadata(config), {}).finish();
  return read_gguf_config(GgufFile::open(path));
}

TEST(ConfigWriter, ReaderGetsTheSameConfig) {
  for (const char* name : {"mini", "flash", "k256"}) {
    const std::string path = FATHOM_TEST_DATA_DIR "/oracle/" + std::string(name) + "/config_official.json";
    ModelConfig config = read_json_config(test::read_file_bytes(path), path);
    config.name = name;
    EXPECT_EQ(through_gguf(config), config) << name;
  }
}

TEST(ConfigWriter, KeepsEveryFieldApart) {
  const std::string path = FATHOM_TEST_DATA_DIR "/oracle/mini/config_official.json";
  ModelConfig config = read_json_config(test::read_file_bytes(path), path);
  config.name = "x";
  config.yarn = {.factor = 3.0F, .original_context = 77, .beta_fast = 31.0F, .beta_slow = 2.0F};
  config.swiglu_limit = {1, 2, 3, 4, 5};
  config.shared_swiglu_limit = {6, 7, 8, 9, 10};
  config.rms_eps = 2e-6F;
  config.hc_eps = 3e-6F;
  config.rope_theta = 12345.0F;
  config.sinkhorn_iterations = 7;
  config.n_shared_experts = 2;
  EXPECT_EQ(through_gguf(config), config);
}

TEST(ConfigWriter, NoYarnStaysNoYarn) {
  const std::string path = FATHOM_TEST_DATA_DIR "/oracle/mini/config_official.json";
  ModelConfig config = read_json_config(test::read_file_bytes(path), path);
  config.name = "x";
  config.yarn = {.original_context = config.context_length};
  for (const GgufKv& key : gguf_config_metadata(config)) {
    EXPECT_EQ(key.key.find("rope.scaling"), std::string::npos) << key.key;
  }
  EXPECT_EQ(through_gguf(config), config);
}

}  // namespace
}  // namespace fathom
