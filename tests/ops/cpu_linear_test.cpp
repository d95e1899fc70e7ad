// Products on the cpu backend: against the reference within what int8 activations are worth, and bit for bit the same
// whatever the number of rows, threads or instruction set.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "backend/cpu/cpu_ops.h"
#include "backend/reference/reference_ops.h"
#include "core/error.h"
#include "quant/quantize.h"

namespace fathom {
namespace {

constexpr int kColumns = 512;

ModelConfig linear_config() {
  ModelConfig c;
  c.n_layers = 1;
  c.hidden = kColumns;
  c.vocab = 8;
  c.context_length = 1024;
  c.n_heads = 4;
  c.head_dim = 128;
  c.rope_dim = 32;
  c.q_lora_rank = kColumns;
  c.o_lora_rank = 24;  // panels hold rows of two groups
  c.o_groups = 2;
  c.window = 16;
  c.compress_ratios = {0};
  c.index_heads = 1;
  c.index_dim = 4;
  c.index_topk = 4;
  c.n_experts = 5;
  c.n_experts_used = 2;
  c.expert_ffn = 256;
  c.swiglu_limit = {1.5F};
  c.shared_swiglu_limit = {1.5F};
  return c;
}

// Random values in a type's own encoding, [count, out, in].
class EncodedWeight {
 public:
  EncodedWeight(DType dtype, int out, int in, int count, unsigned seed) : dtype_(dtype), out_(out), in_(in) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal(0.0F, 0.05F);
    std::vector<float> values(static_cast<size_t>(count) * static_cast<size_t>(out) * static_cast<size_t>(in));
    for (float& v : values) {
      v = normal(random);
    }
    const bool scaled = dtype == DType::kF8_E4M3 || dtype == DType::kF4_E2M1;
    scale_rows_ = dtype == DType::kF8_E4M3 ? 128 : scaled ? 1 : 0;
    scale_cols_ = dtype == DType::kF8_E4M3 ? 128 : scaled ? 32 : 0;
    const size_t row_bytes = dtype_row_bytes(dtype, in);
    codes_.resize(row_bytes * static_cast<size_t>(out * count));
    const size_t scales = scaled ? static_cast<size_t>((out + scale_rows_ - 1) / scale_rows_) *
                                       static_cast<size_t>((in + scale_cols_ - 1) / scale_cols_)
                                 : 0;
    scales_.resize(scales * static_cast<size_t>(count));
    for (int s = 0; s < count; ++s) {
      const auto slice = static_cast<size_t>(s);
      std::byte* codes = codes_.data() + slice * row_bytes * static_cast<size_t>(out);
      const float* from = values.data() + slice * static_cast<size_t>(out) * static_cast<size_t>(in);
      if (scaled) {
        quantize_scaled(dtype, {from, out, in}, scale_rows_, scale_cols_, codes, scales_.data() + slice * scales);
      } else {
        for (int r = 0; r < out; ++r) {
          quantize_row(dtype, from + static_cast<ptrdiff_t>(r) * in, codes + static_cast<size_t>(r) * row_bytes, in);
        }
      }
      slices_.push_back({codes, scaled ? scales_.data() + slice * scales : nullptr});
    }
  }
  [[nodiscard]] Weight weight() const {
    return {.name = "w",
            .dtype = dtype_,
            .out_dim = out_,
            .in_dim = in_,
            .scale_rows = scale_rows_,
            .scale_cols = scale_cols_,
            .slices = slices_};
  }

 private:
  DType dtype_;
  int out_, in_;
  int scale_rows_ = 0, scale_cols_ = 0;
  std::vector<std::byte> codes_;
  std::vector<std::byte> scales_;
  std::vector<WeightSlice> slices_;
};

std::vector<float> random_rows(int rows, int cols, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> v(static_cast<size_t>(rows) * static_cast<size_t>(cols));
  for (float& x : v) {
    x = normal(random);
  }
  return v;
}

DeviceMat<float> matrix(Ops& ops, int rows, int cols, const std::vector<float>& values = {}) {
  const DeviceMat<float> m = ops.make_f32(rows, cols);
  std::copy(values.begin(), values.end(), m.device_ptr());
  return m;
}

std::vector<float> read(Ops& ops, DeviceMat<const float> m) {
  std::vector<float> out(static_cast<size_t>(m.rows()) * static_cast<size_t>(m.cols()));
  ops.read_f32(m, {out.data(), m.rows(), m.cols()});
  return out;
}

BackendOptions options(BackendKind kind, const std::string& isa = "", int threads = 1) {
  BackendOptions o;
  o.kind = kind;
  o.isa = isa;
  o.threads = threads;
  o.max_rows = 64;
  o.cache.block_tokens = 128;
  return o;
}

std::vector<float> multiply(Ops& ops, const Weight& w, const std::vector<float>& x, int rows) {
  const Weight uploaded = ops.upload(w, WeightRole::kMatrix);
  const DeviceMat<float> y = matrix(ops, rows, w.out_dim);
  const Product product{&uploaded, y};
  ops.matmul({&product, 1}, matrix(ops, rows, w.in_dim, x));
  return read(ops, y);
}

std::vector<DType> weight_types() {
  std::vector<DType> types;
  for (const DTypeInfo& info : all_dtypes()) {
    if (info.dtype != DType::kI32 && info.dtype != DType::kI64) {
      types.push_back(info.dtype);
    }
  }
  return types;
}

bool narrows_activations(DType t) {
  return t == DType::kQ8_0 || t == DType::kQ4_0 || t == DType::kQ4_1 || t == DType::kQ4_K || t == DType::kIQ4_NL ||
         t == DType::kIQ4_XS || t == DType::kQ3_K || t == DType::kQ5_K || t == DType::kQ6_K || t == DType::kIQ3_XXS ||
         t == DType::kQ2_K || t == DType::kIQ2_XXS || t == DType::kMXFP4 || t == DType::kF4_E2M1;
}

// Activations that share an int8 scale: more where the scales within a super-block are integers.
int scale_columns(DType t) {
  const bool integers = t == DType::kQ2_K || t == DType::kQ3_K || t == DType::kQ4_K || t == DType::kQ5_K ||
                        t == DType::kQ6_K || t == DType::kIQ2_XXS || t == DType::kIQ3_XXS || t == DType::kIQ4_XS;
  return integers ? cpu::kGroupBlocks * cpu::kBlockColumns : cpu::kBlockColumns;
}

struct Case {
  std::string isa;
  DType dtype;
};

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const char* isa : {"scalar", "avx2", "avx512", "amx"}) {
    for (const DType t : weight_types()) {
      all.push_back({isa, t});
    }
  }
  return all;
}

class CpuLinear : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    try {
      ops_ = std::make_unique<cpu::CpuOps>(linear_config(), options(BackendKind::kCpu, GetParam().isa));
    } catch (const Error& e) {
      GTEST_SKIP() << e.what();
    }
    ASSERT_EQ(ops_->isa(), GetParam().isa);
  }
  std::unique_ptr<cpu::CpuOps> ops_;
};

// An activation off by half a step of its int8 scale (amax / 254) in every column moves an output by at most the sum of
// |w| times that; float32 sums add their own rounding.
TEST_P(CpuLinear, AgreesWithTheReference) {
  constexpr int kRows = 37;  // two full tiles and a part
  constexpr int kOut = 53;   // three full panels and a part
  const EncodedWeight w(GetParam().dtype, kOut, kColumns, 1, 1);
  const std::vector<float> x = random_rows(kRows, kColumns, 2);
  const auto reference = make_ops(linear_config(), options(BackendKind::kReference));
  const std::vector<float> expected = multiply(*reference, w.weight(), x, kRows);
  const std::vector<float> got = multiply(*ops_, w.weight(), x, kRows);
  const Weight wide = reference->upload(w.weight(), WeightRole::kMatrix);
  const auto& values = *static_cast<const std::vector<float>*>(wide.prepared);
  for (int r = 0; r < kRows; ++r) {
    for (int o = 0; o < kOut; ++o) {
      double bound = 1e-6;
      const int width = scale_columns(GetParam().dtype);
      for (int b = 0; b < kColumns; b += width) {
        double amax = 0.0;
        double weights = 0.0;
        double products = 0.0;
        for (int k = b; k < b + width; ++k) {
          const double xv = std::abs(x[static_cast<size_t>(r * kColumns + k)]);
          const double wv = std::abs(values[static_cast<size_t>(o * kColumns + k)]);
          amax = std::max(amax, xv);
          weights += wv;
          products += xv * wv;
        }
        bound += 2e-6 * products + (narrows_activations(GetParam().dtype) ? amax / 254 * 1.001 * weights : 0.0);
      }
      const auto at = static_cast<size_t>(r * kOut + o);
      ASSERT_NEAR(got[at], expected[at], bound) << "row " << r << ", output " << o;
    }
  }
}

TEST_P(CpuLinear, OneRowAndManyRowsRoundAlike) {
  constexpr int kRows = 41;
  constexpr int kOut = 40;
  const EncodedWeight w(GetParam().dtype, kOut, kColumns, 1, 3);
  const std::vector<float> x = random_rows(kRows, kColumns, 4);
  const std::vector<float> all = multiply(*ops_, w.weight(), x, kRows);
  for (const int rows : {1, 2, 5, 7, 8, 13, 16, 17, 33}) {
    const std::vector<float> some(x.end() - static_cast<ptrdiff_t>(rows) * kColumns, x.end());
    EXPECT_EQ(multiply(*ops_, w.weight(), some, rows),
              std::vector<float>(all.end() - static_cast<ptrdiff_t>(rows) * kOut, all.end()))
        << rows << " rows";
  }
}

TEST_P(CpuLinear, EveryInstructionSetAndThreadCountGivesTheSameBits) {
  constexpr int kRows = 19;
  const EncodedWeight w(GetParam().dtype, 300, kColumns, 1, 5);
  const std::vector<float> x = random_rows(kRows, kColumns, 6);
  cpu::CpuOps scalar(linear_config(), options(BackendKind::kCpu, "scalar"));
  const std::vector<float> expected = multiply(scalar, w.weight(), x, kRows);
  EXPECT_EQ(multiply(*ops_, w.weight(), x, kRows), expected);
  for (const int threads : {2, 3, 8}) {
    cpu::CpuOps threaded(linear_config(), options(BackendKind::kCpu, GetParam().isa, threads));
    EXPECT_EQ(multiply(threaded, w.weight(), x, kRows), expected) << threads << " threads";
  }
}

TEST_P(CpuLinear, PanelsMadeWhenTheyAreUsedGiveTheSameBits) {
  const EncodedWeight w(GetParam().dtype, 40, kColumns, 1, 9);
  BackendOptions unpacked = options(BackendKind::kCpu, GetParam().isa);
  unpacked.repack = false;
  cpu::CpuOps ops(linear_config(), unpacked);
  for (const int rows : {1, 33}) {
    const std::vector<float> x = random_rows(rows, kColumns, 10);
    EXPECT_EQ(multiply(ops, w.weight(), x, rows), multiply(*ops_, w.weight(), x, rows)) << rows << " rows";
  }
}

TEST_P(CpuLinear, GroupedProductReadsEachGroupsPart) {
  constexpr int kRows = 9;
  const ModelConfig config = linear_config();
  const int half = config.n_heads * config.head_dim / config.o_groups;
  const EncodedWeight w(GetParam().dtype, config.o_groups * config.o_lora_rank, half, 1, 7);
  const std::vector<float> x = random_rows(kRows, 2 * half, 8);
  const DeviceMat<float> low = matrix(*ops_, kRows, w.weight().out_dim);
  ops_->matmul_grouped(ops_->upload(w.weight(), WeightRole::kMatrix), matrix(*ops_, kRows, 2 * half, x), low);
  const std::vector<float> got = read(*ops_, low);
  for (int g = 0; g < config.o_groups; ++g) {
    std::vector<float> part;
    for (int r = 0; r < kRows; ++r) {
      part.insert(part.end(), x.begin() + r * 2 * half + g * half, x.begin() + r * 2 * half + (g + 1) * half);
    }
    const std::vector<float> expected = multiply(*ops_, w.weight(), part, kRows);
    for (int r = 0; r < kRows; ++r) {
      for (int o = g * config.o_lora_rank; o < (g + 1) * config.o_lora_rank; ++o) {
        const auto at = static_cast<size_t>(r * w.weight().out_dim + o);
        ASSERT_EQ(got[at], expected[at]) << "group " << g << ", row " << r << ", output " << o;
      }
    }
  }
}

struct Mixture {
  EncodedWeight gate, up, down, shared_gate, shared_up, shared_down;
  explicit Mixture(DType t)
      : gate(t, 256, kColumns, 5, 11),
        up(t, 256, kColumns, 5, 12),
        down(t, kColumns, 256, 5, 13),
        shared_gate(t, 256, kColumns, 1, 14),
        shared_up(t, 256, kColumns, 1, 15),
        shared_down(t, kColumns, 256, 1, 16) {}
};

std::vector<float> mix(Ops& ops, const Mixture& m, const std::vector<float>& x, const std::vector<int32_t>& ids) {
  const int rows = static_cast<int>(ids.size() / 2);
  const auto up = [&](const EncodedWeight& w) { return ops.upload(w.weight(), WeightRole::kExperts); };
  const TopK chosen{ops.make_i32(rows, 2), ops.make_f32(rows, 2)};
  std::copy(ids.begin(), ids.end(), chosen.ids.device_ptr());
  for (int i = 0; i < 2 * rows; ++i) {
    chosen.weights.device_ptr()[i] = 0.25F + 0.01F * static_cast<float>(ids[static_cast<size_t>(i)] + i % 2);
  }
  const DeviceMat<float> y = ops.make_f32(rows, kColumns);
  ops.experts(0, {up(m.gate), up(m.up), up(m.down)}, {up(m.shared_gate), up(m.shared_up), up(m.shared_down)}, chosen,
              matrix(ops, rows, kColumns, x), y);
  return read(ops, y);
}

TEST_P(CpuLinear, ExpertsAgreeWithTheReferenceAndDoNotSeeOtherRows) {
  const Mixture m(GetParam().dtype);
  constexpr int kRows = 33;
  std::vector<int32_t> ids;
  for (int r = 0; r < kRows; ++r) {
    const int first = r * 7 % 5;
    const int second = (first + 1 + r % 4) % 5;
    ids.push_back(std::min(first, second));
    ids.push_back(std::max(first, second));
  }
  const std::vector<float> x = random_rows(kRows, kColumns, 17);
  const std::vector<float> got = mix(*ops_, m, x, ids);
  const auto reference = make_ops(linear_config(), options(BackendKind::kReference));
  const std::vector<float> expected = mix(*reference, m, x, ids);
  double error = 0.0;
  double size = 0.0;
  for (size_t i = 0; i < got.size(); ++i) {
    error += std::pow(got[i] - expected[i], 2);
    size += std::pow(expected[i], 2);
  }
  EXPECT_LE(std::sqrt(error / size), narrows_activations(GetParam().dtype) ? 2e-2 : 1e-5);
  for (const int r : {0, 5, 32}) {
    const std::vector<float> row(x.begin() + r * kColumns, x.begin() + (r + 1) * kColumns);
    EXPECT_EQ(mix(*ops_, m, row, {ids[static_cast<size_t>(2 * r)], ids[static_cast<size_t>(2 * r + 1)]}),
              std::vector<float>(got.begin() + r * kColumns, got.begin() + (r + 1) * kColumns))
        << "row " << r;
  }
}

INSTANTIATE_TEST_SUITE_P(Types, CpuLinear, testing::ValuesIn(cases()), [](const auto& param) {
  return fmt::format("{}_{}", param.param.isa, dtype_info(param.param.dtype).name);
});

TEST(CpuKernels, RefusesAnUnknownInstructionSet) {
  try {
    (void)cpu::select_kernels("mmx");
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::kUnsupported);
    EXPECT_STREQ(e.what(), "isa mmx: expected scalar, avx2, avx512 or amx");
  }
}

}  // namespace
}  // namespace fathom
