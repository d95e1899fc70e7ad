// The reference and the CUDA backend side by side, fed with the same numbers.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backend/cuda/cuda_ops.h"
#include "backend/ops.h"
#include "support/random_blocks.h"

namespace fathom::test {

// Uniform in [-1, 1), the same on every machine.
[[nodiscard]] std::vector<float> random_floats(size_t n, uint64_t seed, float scale = 1.0F);

// Random valid blocks whose values are of the order of one over the square root of a row.
class RandomWeight {
 public:
  RandomWeight(std::string name, DType dtype, int out, int in, int count, uint64_t seed);
  [[nodiscard]] Weight weight() const;

 private:
  std::string name_;
  DType dtype_;
  int out_;
  int in_;
  int scale_rows_ = 0;
  int scale_cols_ = 0;
  std::vector<std::byte> bytes_;
  std::vector<std::byte> scales_;
  std::vector<WeightSlice> slices_;
};

struct BothWeights {
  Weight reference;
  Weight cuda;
};

struct BothMats {
  DeviceMat<float> reference;
  DeviceMat<float> cuda;
};

class Pair {
 public:
  explicit Pair(const ModelConfig& config, int max_rows = 512, CacheOptions cache = {});

  [[nodiscard]] BothWeights upload(const Weight& w, WeightRole role);
  // A matrix on both, filled with random numbers.
  [[nodiscard]] BothMats random(int rows, int cols, uint64_t seed, float scale = 1.0F);
  [[nodiscard]] BothMats make(int rows, int cols);
  void fill(const BothMats& m, const std::vector<float>& values);
  // Makes CUDA's matrix the same as the reference's.
  void align(const BothMats& m);
  [[nodiscard]] std::vector<float> read(DeviceMat<const float> m, bool cuda);
  [[nodiscard]] std::vector<int32_t> read(DeviceMat<const int32_t> m, bool cuda);
  void begin(const StepBatch& batch);
  // || cuda - reference || / || reference ||, all rows together. Anything not finite counts as infinite.
  [[nodiscard]] double relative_error(const BothMats& m);
  // Share of the values that differ by more than `tolerance` times the largest of their row.
  [[nodiscard]] double outliers(const BothMats& m, double tolerance);

  std::unique_ptr<Ops> reference;
  std::unique_ptr<cuda::CudaOps> cuda;
};

// The error into the log of the run, then the check.
void expect_below(double error, double limit, const std::string& what);

// Flash's geometry with fewer heads, layers and tokens where nothing depends on them.
[[nodiscard]] ModelConfig flash_like(int hidden = 4096, int heads = 64);

}  // namespace fathom::test
