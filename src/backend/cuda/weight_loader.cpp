#include "backend/cuda/weight_loader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>

#include "backend/cuda/check.h"
#include "backend/cuda/kernels/repack.h"
#include "core/error.h"
#include "core/scalar.h"
#include "weights/dequantize.h"
#include "weights/id_table.h"
#include "weights/iq_grids.h"

namespace fathom::cuda {
namespace {

constexpr size_t kStageBytes = size_t{32} << 20;
constexpr int kStages = 3;
constexpr size_t kPlaneAlignment = 256;

size_t aligned(size_t n) { return (n + kPlaneAlignment - 1) / kPlaneAlignment * kPlaneAlignment; }

// The form a matrix is kept in; types without one of their own become BF16.
Format format_of(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return Format::kF32;
    case DType::kF16:
      return Format::kF16;
    case DType::kF8_E4M3:
      return Format::kF8;
    case DType::kQ8_0:
      return Format::kQ8_0;
    case DType::kMXFP4:
    case DType::kF4_E2M1:
      return Format::kMXFP4;
    case DType::kQ4_K:
      return Format::kQ4_K;
    case DType::kQ2_K:
      return Format::kQ2_K;
    case DType::kQ3_K:
      return Format::kQ3_K;
    case DType::kIQ2_XXS:
      return Format::kIQ2_XXS;
    default:
      return Format::kBF16;
  }
}

std::optional<RepackSource> repack_source(DType dtype) {
  switch (dtype) {
    case DType::kQ8_0:
      return RepackSource::kQ8_0;
    case DType::kMXFP4:
      return RepackSource::kMXFP4;
    case DType::kF4_E2M1:
      return RepackSource::kE2M1;
    case DType::kQ4_K:
      return RepackSource::kQ4_K;
    case DType::kQ2_K:
      return RepackSource::kQ2_K;
    case DType::kQ3_K:
      return RepackSource::kQ3_K;
    case DType::kIQ2_XXS:
      return RepackSource::kIQ2_XXS;
    default:
      return std::nullopt;
  }
}

// Values in what repack() takes as one block.
int repack_block(DType dtype) { return dtype == DType::kF4_E2M1 ? 32 : dtype_info(dtype).block_size; }
int repack_block_bytes(DType dtype) { return dtype == DType::kF4_E2M1 ? 16 : dtype_info(dtype).block_bytes; }

bool is_direct(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBF16 || dtype == DType::kF8_E4M3;
}

uint64_t seed_of(std::string_view name) {
  uint64_t hash = 0xCBF29CE484222325ULL;
  for (const char c : name) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3ULL;
  }
  return hash;
}

}  // namespace

WeightLoader::WeightLoader(Device& device, cudaStream_t stream)
    : device_(device),
      launch_{.stream = stream, .multiprocessors = device.multiprocessors()},
      grid_(device, sizeof(kIq2XxsGrid), "tables") {
  CUDA_CHECK(cudaMemcpy(grid_.data(), kIq2XxsGrid.data(), sizeof(kIq2XxsGrid), cudaMemcpyHostToDevice));
}

std::byte* WeightLoader::allocate(const Weight& weight, size_t bytes) {
  return memory_.emplace_back(device_, aligned(bytes), weight.name).data();
}

WeightLoader::Stage& WeightLoader::next_stage() {
  if (stages_.empty()) {
    for (int i = 0; i < kStages; ++i) {
      stages_.push_back({PinnedBuffer(device_, kStageBytes), DeviceBuffer(device_, kStageBytes, "staging of weights"),
                         make_event(device_), false});
    }
  }
  Stage& stage = stages_[next_++ % stages_.size()];
  if (stage.busy) {
    CUDA_CHECK(cudaEventSynchronize(stage.done.get()));
  }
  stage.busy = true;
  return stage;
}

void WeightLoader::copy_raw(const std::byte* from, size_t bytes, std::byte* to) {
  for (size_t at = 0; at < bytes; at += kStageBytes) {
    Stage& stage = next_stage();
    const size_t n = std::min(kStageBytes, bytes - at);
    std::memcpy(stage.host.data(), from + at, n);
    CUDA_CHECK(cudaMemcpyAsync(to + at, stage.host.data(), n, cudaMemcpyHostToDevice, launch_.stream));
    CUDA_CHECK(cudaEventRecord(stage.done.get(), launch_.stream));
  }
}

const DeviceWeight* WeightLoader::load(const Weight& weight, WeightRole role, int limit) {
  device_.make_current();
  if (role == WeightRole::kIdTable) {
    return load_table(weight, limit);
  }
  if (role == WeightRole::kVector) {
    return load_vector(weight);
  }
  DeviceWeight planes;
  planes.format = format_of(weight.dtype);
  planes.rows = weight.out_dim;
  planes.cols = weight.in_dim;
  planes.scale_rows = weight.scale_rows;
  planes.scale_cols = weight.scale_cols;
  planes.grid = grid_.as<uint64_t>();
  const RowBytes row = row_bytes(planes.format, planes.cols);
  const auto rows = static_cast<size_t>(planes.rows);
  planes.codes_stride = aligned(row.codes * rows);
  planes.high_stride = aligned(row.high * rows);
  planes.scales_stride = aligned(row.scales * rows);
  planes.supers_stride = aligned(row.supers * rows);
  if (weight.dtype == DType::kF8_E4M3) {
    const int n = (weight.out_dim + weight.scale_rows - 1) / weight.scale_rows *
                  ((weight.in_dim + weight.scale_cols - 1) / weight.scale_cols);
    planes.scales_stride = aligned(static_cast<size_t>(n) * sizeof(float));
  }
  const auto n = static_cast<size_t>(weight.count());
  const std::byte* base =
      allocate(weight, n * (planes.codes_stride + planes.high_stride + planes.scales_stride + planes.supers_stride));
  planes.codes = reinterpret_cast<const uint8_t*>(base);
  planes.high = planes.codes + n * planes.codes_stride;
  planes.scales = planes.high + n * planes.high_stride;
  planes.supers = planes.scales + n * planes.scales_stride;
  if (weight.slices[0].codes == nullptr) {
    fill_planes(weight, role, planes);
  } else {
    load_planes(weight, planes);
    load_scales(weight, planes);
  }
  return &weights_.emplace_back(planes);
}

void WeightLoader::load_planes(const Weight& weight, DeviceWeight& planes) {
  const auto out = static_cast<size_t>(weight.out_dim);
  const auto in = static_cast<size_t>(weight.in_dim);
  const std::optional<RepackSource> source = repack_source(weight.dtype);
  const size_t source_row = is_direct(weight.dtype) || source ? dtype_row_bytes(weight.dtype, weight.in_dim) : 2 * in;
  const RowBytes row = row_bytes(planes.format, planes.cols);
  std::vector<float> wide(source || is_direct(weight.dtype) ? 0 : in);

  for (size_t s = 0; s < weight.slices.size(); ++s) {
    auto* codes = const_cast<uint8_t*>(planes.codes) + s * planes.codes_stride;
    if (is_direct(weight.dtype)) {
      copy_raw(weight.slices[s].codes, out * source_row, reinterpret_cast<std::byte*>(codes));
      continue;
    }
    const size_t rows_at_once = std::max<size_t>(1, kStageBytes / source_row);
    for (size_t first = 0; first < out; first += rows_at_once) {
      const size_t n = std::min(rows_at_once, out - first);
      Stage& stage = next_stage();
      if (source) {
        std::memcpy(stage.host.data(), weight.slices[s].codes + first * source_row, n * source_row);
        CUDA_CHECK(cudaMemcpyAsync(stage.device.data(), stage.host.data(), n * source_row, cudaMemcpyHostToDevice,
                                   launch_.stream));
        repack(launch_,
               {.source = *source,
                .block_bytes = repack_block_bytes(weight.dtype),
                .n_blocks = static_cast<int64_t>(n * in) / repack_block(weight.dtype),
                .from = stage.device.as<uint8_t>(),
                .codes = codes + first * row.codes,
                .high = const_cast<uint8_t*>(planes.high) + s * planes.high_stride + first * row.high,
                .scales = const_cast<uint8_t*>(planes.scales) + s * planes.scales_stride + first * row.scales,
                .supers = const_cast<uint8_t*>(planes.supers) + s * planes.supers_stride + first * row.supers});
      } else {
        auto* narrow = reinterpret_cast<uint16_t*>(stage.host.data());
        for (size_t r = 0; r < n; ++r) {
          dequantize_row(weight, static_cast<int>(s), static_cast<int>(first + r), wide.data());
          std::transform(wide.begin(), wide.end(), narrow + r * in, [](float v) { return f32_to_bf16(v); });
        }
        CUDA_CHECK(cudaMemcpyAsync(codes + first * source_row, narrow, n * source_row, cudaMemcpyHostToDevice,
                                   launch_.stream));
      }
      CUDA_CHECK(cudaEventRecord(stage.done.get(), launch_.stream));
    }
  }
}

void WeightLoader::load_scales(const Weight& weight, DeviceWeight& planes) {
  if (weight.dtype != DType::kF8_E4M3 && weight.dtype != DType::kF4_E2M1) {
    return;
  }
  const auto n = static_cast<size_t>((weight.out_dim + weight.scale_rows - 1) / weight.scale_rows) *
                 static_cast<size_t>((weight.in_dim + weight.scale_cols - 1) / weight.scale_cols);
  if (weight.dtype == DType::kF4_E2M1 && (weight.scale_rows != 1 || weight.scale_cols != 32)) {
    throw Error(ErrorCode::kUnsupported, fmt::format("{}: one scale per {} x {} values, expected 1 x 32", weight.name,
                                                     weight.scale_rows, weight.scale_cols));
  }
  std::vector<float> wide(n);
  for (size_t s = 0; s < weight.slices.size(); ++s) {
    auto* to = reinterpret_cast<std::byte*>(const_cast<uint8_t*>(planes.scales) + s * planes.scales_stride);
    if (weight.dtype == DType::kF4_E2M1) {
      copy_raw(weight.slices[s].scales, n, to);
      continue;
    }
    std::transform(weight.slices[s].scales, weight.slices[s].scales + n, wide.begin(),
                   [](std::byte code) { return e8m0_to_f32(std::to_integer<uint8_t>(code)); });
    copy_raw(reinterpret_cast<const std::byte*>(wide.data()), n * sizeof(float), to);
  }
}

// Random codes under one scale each format, so that products of normed rows stay near one.
void WeightLoader::fill_planes(const Weight& weight, WeightRole role, DeviceWeight& planes) {
  const uint64_t seed = seed_of(weight.name);
  const auto n = static_cast<size_t>(weight.count());
  const float deviation = role == WeightRole::kEmbedding ? 1.0F : 1.0F / std::sqrt(static_cast<float>(weight.in_dim));
  const auto word = [](float d, float dmin) {
    return static_cast<uint32_t>(f32_to_f16(d)) | static_cast<uint32_t>(f32_to_f16(dmin)) << 16;
  };
  auto* codes = const_cast<uint8_t*>(planes.codes);
  auto* high = const_cast<uint8_t*>(planes.high);
  auto* scales = const_cast<uint8_t*>(planes.scales);
  auto* supers = const_cast<uint8_t*>(planes.supers);
  if (!has_integer_codes(planes.format) && planes.format != Format::kF8) {
    const size_t bytes = planes.format == Format::kF32 ? 4 : 2;
    fill_random_floats(launch_, planes.format, codes, static_cast<int64_t>(n * planes.codes_stride / bytes), seed, 0.0F,
                       1.7F * deviation);
    return;
  }
  fill_random_bits(launch_, codes, n * planes.codes_stride, seed);
  fill_random_bits(launch_, high, n * planes.high_stride, seed + 1);
  fill_random_bits(launch_, scales, n * planes.scales_stride, seed + 2);
  switch (planes.format) {
    case Format::kQ8_0:
      return fill_words(launch_, scales, n * planes.scales_stride, word(deviation / 74.0F, deviation / 74.0F));
    case Format::kMXFP4: {
      const auto e = static_cast<uint32_t>(127 + std::lround(std::log2(deviation / 3.0F)));
      return fill_words(launch_, scales, n * planes.scales_stride, e * 0x01010101U);
    }
    case Format::kQ4_K:  // the stored scales are arbitrary bytes, larger than a file's 63
      return fill_words(launch_, supers, n * planes.supers_stride, word(deviation / 1000.0F, deviation / 133.0F));
    case Format::kQ2_K:
      return fill_words(launch_, supers, n * planes.supers_stride, word(deviation / 12.0F, deviation / 8.0F));
    case Format::kQ3_K:
      return fill_words(launch_, supers, n * planes.supers_stride, word(deviation / 170.0F, deviation / 170.0F));
    case Format::kIQ2_XXS:
      return fill_words(launch_, supers, n * planes.supers_stride, word(deviation / 60.0F, deviation / 60.0F));
    default:
      throw Error(ErrorCode::kUnsupported, fmt::format("{}: no synthetic values of this type", weight.name));
  }
}

const DeviceWeight* WeightLoader::load_vector(const Weight& weight) {
  const auto n = static_cast<size_t>(weight.out_dim) * static_cast<size_t>(weight.in_dim);
  DeviceWeight planes;
  planes.rows = weight.out_dim;
  planes.cols = weight.in_dim;
  std::byte* to = allocate(weight, n * sizeof(float));
  planes.codes = reinterpret_cast<const uint8_t*>(to);
  if (weight.slices[0].codes == nullptr) {
    const bool gain = weight.name.find("norm") != std::string_view::npos;
    fill_random_floats(launch_, Format::kF32, to, static_cast<int64_t>(n), seed_of(weight.name), gain ? 1.0F : 0.0F,
                       0.1F);
  } else {
    std::vector<float> wide(n);
    for (int r = 0; r < weight.out_dim; ++r) {
      dequantize_row(weight, 0, r, wide.data() + static_cast<size_t>(r) * static_cast<size_t>(weight.in_dim));
    }
    copy_raw(reinterpret_cast<const std::byte*>(wide.data()), n * sizeof(float), to);
  }
  return &weights_.emplace_back(planes);
}

const DeviceWeight* WeightLoader::load_table(const Weight& weight, int limit) {
  DeviceWeight planes;
  planes.rows = weight.out_dim;
  planes.cols = weight.in_dim;
  std::vector<int32_t> ids;
  if (weight.slices[0].codes == nullptr) {
    ids.resize(static_cast<size_t>(weight.out_dim) * static_cast<size_t>(weight.in_dim));
    for (size_t i = 0; i < ids.size(); ++i) {
      const size_t row = i / static_cast<size_t>(weight.in_dim);
      ids[i] = static_cast<int32_t>((row * 2654435761U + i % static_cast<size_t>(weight.in_dim) * 41U) %
                                    static_cast<size_t>(limit));
    }
  } else {
    ids = read_id_table(weight, limit);
  }
  const size_t bytes = ids.size() * sizeof(int32_t);
  std::byte* to = allocate(weight, bytes);
  planes.codes = reinterpret_cast<const uint8_t*>(to);
  copy_raw(reinterpret_cast<const std::byte*>(ids.data()), bytes, to);
  return &weights_.emplace_back(planes);
}

void WeightLoader::finish() {
  if (!stages_.empty()) {
    CUDA_CHECK(cudaStreamSynchronize(launch_.stream));
    stages_.clear();
  }
}

}  // namespace fathom::cuda
