#include "engine/model_fingerprint.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "model/config_reader.h"

namespace fathom {
namespace {

// Tensors of which one can be changed.
class ChangeableSource final : public WeightSource {
 public:
  explicit ChangeableSource(const std::function<void(Weight&, std::vector<std::byte>&)>& change = {}) {
    Weight weight;
    weight.dtype = DType::kBF16;
    weight.out_dim = 300;
    weight.in_dim = 64;
    bytes_.resize(300 * 64 * 2, std::byte{1});
    if (change) {
      change(weight, bytes_);
    }
    EXPECT_TRUE(add_tensor("blk.0.attn_kv.weight", weight, {WeightSlice{.codes = bytes_.data(), .scales = nullptr}}));
  }
  [[nodiscard]] const std::string& path() const noexcept override { return path_; }

 private:
  std::vector<std::byte> bytes_;
  std::string path_ = "changeable";
};

PrefixKey fingerprint(const ChangeableSource& source, const ModelConfig& config = {}, const CacheLayout& layout = {},
                      std::string_view numerics = "cpu") {
  return model_fingerprint(source, config, layout, numerics);
}

TEST(ModelFingerprint, ChangesWithEverythingThatDecidesAboutRows) {
  const PrefixKey base = fingerprint(ChangeableSource());
  EXPECT_EQ(fingerprint(ChangeableSource()), base);

  const auto weight_changes = std::vector<std::function<void(Weight&, std::vector<std::byte>&)>>{
      [](Weight&, std::vector<std::byte>& bytes) { bytes.front() = std::byte{2}; },
      [](Weight&, std::vector<std::byte>& bytes) { bytes[bytes.size() / 2] = std::byte{2}; },
      [](Weight&, std::vector<std::byte>& bytes) { bytes.back() = std::byte{2}; },
      [](Weight& weight, std::vector<std::byte>&) { weight.dtype = DType::kF16; },
      [](Weight& weight, std::vector<std::byte>&) { std::swap(weight.out_dim, weight.in_dim); },
  };
  for (const auto& change : weight_changes) {
    EXPECT_NE(fingerprint(ChangeableSource(change)), base);
  }

  ModelConfig config;
  config.rms_eps = 2e-6F;
  EXPECT_NE(fingerprint(ChangeableSource(), config), base);
  config = {};
  config.compress_ratios = {0};
  EXPECT_NE(fingerprint(ChangeableSource(), config), base);
  config = {};
  config.name = "the name is only a label";
  EXPECT_EQ(fingerprint(ChangeableSource(), config), base);

  CacheLayout layout;
  layout.options.kv_type = KvType::kPacked;
  EXPECT_NE(fingerprint(ChangeableSource(), {}, layout), base);
  layout = {};
  layout.options.activation_sim = false;
  EXPECT_NE(fingerprint(ChangeableSource(), {}, layout), base);
  EXPECT_NE(fingerprint(ChangeableSource(), {}, {}, "reference"), base);
}

}  // namespace
}  // namespace fathom
