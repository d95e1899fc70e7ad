#include "gpu/pair.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace fathom::test {

std::vector<float> random_floats(size_t n, uint64_t seed, float scale) {
  SplitMix64 rng(seed);
  std::vector<float> v(n);
  for (float& x : v) {
    x = scale * (static_cast<float>(rng.next() >> 40) * 0x1p-23F - 1.0F);
  }
  return v;
}

RandomWeight::RandomWeight(std::string name, DType dtype, int out, int in, int count, uint64_t seed)
    : name_(std::move(name)), dtype_(dtype), out_(out), in_(in) {
  const DTypeInfo& info = dtype_info(dtype);
  const float deviation = 1.0F / std::sqrt(static_cast<float>(in));
  const size_t slice_bytes = static_cast<size_t>(out) * dtype_row_bytes(dtype, in);
  const auto n = static_cast<size_t>(count);
  if (info.is_float) {
    const std::vector<float> values =
        random_floats(n * static_cast<size_t>(out) * static_cast<size_t>(in), seed, 1.7F * deviation);
    bytes_.resize(n * slice_bytes);
    for (size_t i = 0; i < values.size(); ++i) {
      if (dtype == DType::kF32) {
        std::memcpy(bytes_.data() + 4 * i, &values[i], 4);
      } else {
        const uint16_t code = dtype == DType::kF16 ? f32_to_f16(values[i]) : f32_to_bf16(values[i]);
        std::memcpy(bytes_.data() + 2 * i, &code, 2);
      }
    }
  } else {
    const auto block_bytes = static_cast<size_t>(info.block_bytes);
    bytes_ = random_blocks(dtype, n * slice_bytes / block_bytes, seed);
    SplitMix64 rng(seed + 1);
    for (size_t at = 0; at < bytes_.size(); at += block_bytes) {
      for (const size_t offset : f16_offsets(dtype)) {
        const uint16_t code = f32_to_f16(deviation * (0.02F + static_cast<float>(rng.next() & 0xFF) / 10000.0F));
        std::memcpy(bytes_.data() + at + offset, &code, 2);
      }
      if (dtype == DType::kMXFP4) {
        bytes_[at] = static_cast<std::byte>(118 + (rng.next() & 3));
      }
      if (dtype == DType::kF8_E4M3 && (bytes_[at] & std::byte{0x7F}) == std::byte{0x7F}) {
        bytes_[at] = std::byte{0x3A};
      }
    }
  }
  if (dtype == DType::kF8_E4M3 || dtype == DType::kF4_E2M1) {
    scale_rows_ = dtype == DType::kF8_E4M3 ? 128 : 1;
    scale_cols_ = dtype == DType::kF8_E4M3 ? 128 : 32;
    const size_t n_scales = static_cast<size_t>((out + scale_rows_ - 1) / scale_rows_) *
                            static_cast<size_t>((in + scale_cols_ - 1) / scale_cols_);
    SplitMix64 rng(seed + 2);
    scales_.resize(n * n_scales);
    for (std::byte& s : scales_) {
      s = static_cast<std::byte>((dtype == DType::kF8_E4M3 ? 114 : 119) + (rng.next() & 3));
    }
    for (size_t s = 0; s < n; ++s) {
      slices_.push_back({bytes_.data() + s * slice_bytes, scales_.data() + s * n_scales});
    }
    return;
  }
  for (size_t s = 0; s < n; ++s) {
    slices_.push_back({bytes_.data() + s * slice_bytes, nullptr});
  }
}

Weight RandomWeight::weight() const {
  return {.name = name_,
          .dtype = dtype_,
          .out_dim = out_,
          .in_dim = in_,
          .scale_rows = scale_rows_,
          .scale_cols = scale_cols_,
          .slices = slices_};
}

Pair::Pair(const ModelConfig& config, int max_rows, CacheOptions cache_options) {
  BackendOptions options{.kind = BackendKind::kReference, .max_rows = max_rows, .cache = cache_options};
  reference = make_ops(config, options);
  cuda = std::make_unique<cuda::CudaOps>(config, options);
  reference->reserve_cache(1, 1);
  cuda->reserve_cache(1, 1);
}

BothWeights Pair::upload(const Weight& w, WeightRole role) {
  return {reference->upload(w, role), cuda->upload(w, role)};
}

BothMats Pair::make(int rows, int cols) {
  const BothMats m{reference->make_f32(rows, cols), cuda->make_f32(rows, cols)};
  // Whatever is not written must not pass for a result.
  const std::vector<float> poison(static_cast<size_t>(rows) * static_cast<size_t>(cols),
                                  std::numeric_limits<float>::quiet_NaN());
  cuda->write_f32({poison.data(), rows, cols}, m.cuda);
  return m;
}

void Pair::fill(const BothMats& m, const std::vector<float>& values) {
  std::copy(values.begin(), values.end(), m.reference.device_ptr());
  cuda->write_f32({values.data(), m.cuda.rows(), m.cuda.cols()}, m.cuda);
}

BothMats Pair::random(int rows, int cols, uint64_t seed, float scale) {
  const BothMats m = make(rows, cols);
  fill(m, random_floats(static_cast<size_t>(rows) * static_cast<size_t>(cols), seed, scale));
  return m;
}

std::vector<float> Pair::read(DeviceMat<const float> m, bool from_cuda) {
  std::vector<float> v(static_cast<size_t>(m.rows()) * static_cast<size_t>(m.cols()));
  (from_cuda ? static_cast<Ops&>(*cuda) : *reference).read_f32(m, {v.data(), m.rows(), m.cols()});
  return v;
}

std::vector<int32_t> Pair::read(DeviceMat<const int32_t> m, bool from_cuda) {
  std::vector<int32_t> v(static_cast<size_t>(m.rows()) * static_cast<size_t>(m.cols()));
  (from_cuda ? static_cast<Ops&>(*cuda) : *reference).read_i32(m, {v.data(), m.rows(), m.cols()});
  return v;
}

void Pair::align(const BothMats& m) { fill(m, read(m.reference, false)); }

void Pair::begin(const StepBatch& batch) {
  reference->begin_step(batch);
  cuda->begin_step(batch);
}

double Pair::relative_error(const BothMats& m) {
  const std::vector<float> want = read(m.reference, false);
  const std::vector<float> got = read(m.cuda, true);
  double difference = 0.0;
  double size = 0.0;
  for (size_t i = 0; i < want.size(); ++i) {
    if (!std::isfinite(got[i])) {
      return std::numeric_limits<double>::infinity();
    }
    const double d = static_cast<double>(got[i]) - static_cast<double>(want[i]);
    difference += d * d;
    size += static_cast<double>(want[i]) * static_cast<double>(want[i]);
  }
  return std::sqrt(difference / std::max(size, 1e-30));
}

double Pair::outliers(const BothMats& m, double tolerance) {
  const std::vector<float> want = read(m.reference, false);
  const std::vector<float> got = read(m.cuda, true);
  const auto cols = static_cast<size_t>(m.reference.cols());
  size_t n = 0;
  for (size_t first = 0; first < want.size(); first += cols) {
    double largest = 0.0;
    for (size_t i = first; i < first + cols; ++i) {
      largest = std::max(largest, std::abs(static_cast<double>(want[i])));
    }
    for (size_t i = first; i < first + cols; ++i) {
      const double d = std::abs(static_cast<double>(got[i]) - static_cast<double>(want[i]));
      n += d <= tolerance * largest ? 0 : 1;
    }
  }
  return static_cast<double>(n) / static_cast<double>(want.size());
}

void expect_below(double error, double limit, const std::string& what) {
  fmt::print("  {:<58} {:.2e} (limit {:.0e}){}\n", what, error, limit, error <= limit ? "" : "  FAILED");
  EXPECT_LE(error, limit) << what;
}

ModelConfig flash_like(int hidden, int heads) {
  ModelConfig c;
  c.n_layers = 3;
  c.hidden = hidden;
  c.vocab = 256;
  c.context_length = 8192;
  c.n_heads = heads;
  c.head_dim = 512;
  c.rope_dim = 64;
  c.q_lora_rank = 1024;
  c.o_lora_rank = 1024;
  c.o_groups = 8;
  c.window = 128;
  c.compress_ratios = {0, 4, 128};
  c.index_heads = 64;
  c.index_dim = 128;
  c.index_topk = 512;
  c.yarn = {.factor = 16.0F, .original_context = 65536};
  c.n_experts = 16;
  c.n_experts_used = 6;
  c.expert_ffn = 2048;
  c.routed_scale = 1.5F;
  c.swiglu_limit = {10.0F, 10.0F, 10.0F};
  c.shared_swiglu_limit = {10.0F, 10.0F, 10.0F};
  return c;
}

}  // namespace fathom::test
