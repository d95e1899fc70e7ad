#include "model/shapes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "model/config_check.h"
#include "model/model.h"
#include "support/expect_error.h"

namespace fathom {
namespace {

uint64_t n_parameters(const ModelConfig& config) {
  uint64_t n = 0;
  for (const TensorSpec& t : list_tensors(config)) {
    const bool counts = t.kind != TensorSpec::Kind::kIdTable;
    n += counts ? static_cast<uint64_t>(t.count) * static_cast<uint64_t>(t.out_dim) * static_cast<uint64_t>(t.in_dim)
                : 0;
  }
  return n;
}

int n_layers_of_ratio(const ModelConfig& config, int ratio) {
  return static_cast<int>(std::count(config.compress_ratios.begin(), config.compress_ratios.end(), ratio));
}

TEST(Shapes, AreConsistent) {
  for (const std::string_view name : shape_names()) {
    SCOPED_TRACE(name);
    const ModelConfig config = named_shape(name);
    EXPECT_NO_THROW(check_config(config, "shape"));
    EXPECT_EQ(config.compress_ratios.size(), static_cast<size_t>(config.n_layers));
    EXPECT_NE(config.name.find(name), std::string::npos);
  }
}

// Published sizes of the main model, without multi-token prediction.
TEST(Shapes, FlashAndProHaveThePublishedSizes) {
  EXPECT_NEAR(static_cast<double>(n_parameters(named_shape("flash"))), 284.3e9, 0.05e9);
  EXPECT_NEAR(static_cast<double>(n_parameters(named_shape("pro"))), 1.573e12, 0.0005e12);
  EXPECT_EQ(n_layers_of_ratio(named_shape("flash"), 0), 2);
  EXPECT_EQ(n_layers_of_ratio(named_shape("flash"), 4), 21);
  EXPECT_EQ(n_layers_of_ratio(named_shape("flash"), 128), 20);
  EXPECT_EQ(n_layers_of_ratio(named_shape("pro"), 4), 30);
  EXPECT_EQ(n_layers_of_ratio(named_shape("pro"), 128), 31);
}

TEST(Shapes, SmallOnesHaveEveryKindOfLayer) {
  for (const char* name : {"tiny", "mid"}) {
    const ModelConfig config = named_shape(name);
    for (const int ratio : {0, 4, 128}) {
      EXPECT_GT(n_layers_of_ratio(config, ratio), 0) << name << " " << ratio;
    }
    EXPECT_GT(config.n_hash_layers, 0) << name;
    EXPECT_LT(config.n_hash_layers, config.n_layers) << name;
  }
}

TEST(Shapes, RefusesUnknownNames) {
  EXPECT_ERROR(static_cast<void>(named_shape("huge")), ErrorCode::kBadRequest,
               "shape 'huge', expected one of tiny, mid, flash, pro");
}

TEST(Shapes, FirstLayersAreThoseOfTheWhole) {
  const ModelConfig whole = named_shape("flash");
  const ModelConfig cut = first_layers(whole, 5);
  EXPECT_NO_THROW(check_config(cut, "shape"));
  EXPECT_EQ(cut.compress_ratios, std::vector<int>({0, 0, 4, 128, 4}));
  EXPECT_EQ(cut.n_hash_layers, whole.n_hash_layers);
  EXPECT_EQ(first_layers(whole, 2).n_hash_layers, 2);
  EXPECT_EQ(first_layers(whole, 43), whole);
  EXPECT_ERROR(static_cast<void>(first_layers(whole, 0)), ErrorCode::kBadRequest, "0 layers of synthetic-flash");
  EXPECT_ERROR(static_cast<void>(first_layers(whole, 44)), ErrorCode::kBadRequest,
               "44 layers of synthetic-flash, expected 1 to 43");
}

TEST(TensorList, NamesAreDistinct) {
  const std::vector<TensorSpec> tensors = list_tensors(named_shape("mid"));
  std::set<std::string> names;
  for (const TensorSpec& tensor : tensors) {
    EXPECT_TRUE(names.insert(tensor.name).second) << tensor.name;
  }
}

}  // namespace
}  // namespace fathom
