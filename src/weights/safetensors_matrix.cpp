#include "weights/safetensors_matrix.h"

#include <fmt/format.h>

#include <limits>
#include <span>

#include "core/error.h"
#include "core/printable.h"
#include "weights/names.h"

namespace fathom {
namespace {

// What the official files use; also the answer where the shape does not tell.
constexpr uint64_t kUsualScaleBlock = 128;
constexpr int kFp4Group = 32;

[[noreturn]] void fail(ErrorCode code, const SafetensorsModel::Entry& entry, const std::string& what) {
  throw Error(code, fmt::format("{}: tensor {}: {}", entry.file->path(), printable(entry.tensor->name), what));
}

// nullopt: a type that only scales or foreign models have.
std::optional<DType> weight_dtype(SafetensorsDType dtype) {
  switch (dtype) {
    case SafetensorsDType::kF32:
      return DType::kF32;
    case SafetensorsDType::kF16:
      return DType::kF16;
    case SafetensorsDType::kBF16:
      return DType::kBF16;
    case SafetensorsDType::kI32:
      return DType::kI32;
    case SafetensorsDType::kI64:
      return DType::kI64;
    case SafetensorsDType::kF8_E4M3:
      return DType::kF8_E4M3;
    case SafetensorsDType::kI8:
    case SafetensorsDType::kU8:
      return DType::kF4_E2M1;  // packed in pairs
    default:
      return std::nullopt;
  }
}

bool has_scales(DType dtype) { return dtype == DType::kF8_E4M3 || dtype == DType::kF4_E2M1; }

// [count, out, in] with 1 for what the tensor lacks.
struct Dims {
  uint64_t count = 1;
  uint64_t out = 1;
  uint64_t in = 1;
};

Dims read_dims(const SafetensorsModel::Entry& entry) {
  const std::vector<uint64_t>& shape = entry.tensor->shape;
  constexpr auto kMaxDim = static_cast<uint64_t>(std::numeric_limits<int>::max());
  bool fits = shape.size() <= 3;
  for (const uint64_t dim : shape) {
    fits = fits && dim >= 1 && dim <= kMaxDim;
  }
  if (!fits) {
    fail(ErrorCode::kUnsupported, entry,
         fmt::format("shape {}, expected at most 3 dimensions of 1 to {}", shape_text(shape), kMaxDim));
  }
  Dims dims;
  const size_t rank = shape.size();
  dims.in = rank >= 1 ? shape[rank - 1] : 1;
  dims.out = rank >= 2 ? shape[rank - 2] : 1;
  dims.count = rank >= 3 ? shape[rank - 3] : 1;
  return dims;
}

// Sets scale_rows and scale_cols of `weight`, whose other dimensions are set.
const std::byte* read_scales(const SafetensorsModel& model, const SafetensorsModel::Entry& entry, Weight& weight) {
  const SafetensorsModel::Entry* scales = find_scales(model, entry.tensor->name);
  if (scales == nullptr) {
    fail(ErrorCode::kBadModel, entry,
         fmt::format("{} without scales, expected a tensor {}", safetensors_dtype_info(entry.tensor->dtype).name,
                     printable(scale_names(entry.tensor->name).front())));
  }
  const SafetensorsTensor& tensor = *scales->tensor;
  if (tensor.dtype != SafetensorsDType::kF8_E8M0 && tensor.dtype != SafetensorsDType::kU8) {
    fail(ErrorCode::kUnsupported, *scales,
         fmt::format("scales of {}, expected F8_E8M0", safetensors_dtype_info(tensor.dtype).name));
  }
  const auto out = static_cast<uint64_t>(weight.out_dim);
  const auto in = static_cast<uint64_t>(weight.in_dim);
  if (weight.dtype == DType::kF4_E2M1) {
    if (in % kFp4Group != 0 || tensor.shape != std::vector<uint64_t>{out, in / kFp4Group}) {
      fail(ErrorCode::kBadModel, *scales,
           fmt::format("shape {}, expected a scale for each {} columns of FP4 [{}, {}]", shape_text(tensor.shape),
                       kFp4Group, out, in));
    }
    weight.scale_rows = 1;
    weight.scale_cols = kFp4Group;
    return tensor.bytes.data();
  }
  const auto rows = tensor.shape.size() == 2 ? scale_block(out, tensor.shape[0]) : std::nullopt;
  const auto cols = tensor.shape.size() == 2 ? scale_block(in, tensor.shape[1]) : std::nullopt;
  if (!rows || !cols) {
    fail(ErrorCode::kBadModel, *scales,
         fmt::format("shape {}, expected a scale for each block ({} x {} in official files) of FP8 [{}, {}]",
                     shape_text(tensor.shape), kUsualScaleBlock, kUsualScaleBlock, out, in));
  }
  weight.scale_rows = *rows;
  weight.scale_cols = *cols;
  return tensor.bytes.data();
}

}  // namespace

std::optional<int> scale_block(uint64_t n, uint64_t n_scales) {
  const auto n_blocks = [n](uint64_t block) { return (n + block - 1) / block; };
  if (n_blocks(kUsualScaleBlock) == n_scales) {
    return static_cast<int>(kUsualScaleBlock);
  }
  for (uint64_t block = 1; block <= uint64_t{1} << 30; block *= 2) {
    if (n_blocks(block) == n_scales) {
      return static_cast<int>(block);
    }
  }
  return std::nullopt;
}

const SafetensorsModel::Entry* find_scales(const SafetensorsModel& model, const std::string& weight_name) {
  for (const std::string& name : scale_names(weight_name)) {
    if (const SafetensorsModel::Entry* scales = model.find(name)) {
      return scales;
    }
  }
  return nullptr;
}

SafetensorsMatrices read_matrices(const SafetensorsModel& model, const SafetensorsModel::Entry& entry) {
  const SafetensorsTensor& tensor = *entry.tensor;
  const std::optional<DType> dtype = weight_dtype(tensor.dtype);
  if (!dtype) {
    fail(ErrorCode::kUnsupported, entry,
         fmt::format("weights of {}; supported are F32, F16, BF16, I32, I64, F8_E4M3 and I8 (packed FP4)",
                     safetensors_dtype_info(tensor.dtype).name));
  }
  const Dims dims = read_dims(entry);
  SafetensorsMatrices matrices;
  matrices.shape.dtype = *dtype;
  matrices.shape.out_dim = static_cast<int>(dims.out);
  matrices.shape.in_dim = static_cast<int>(dims.in);
  const std::byte* scales = nullptr;
  if (has_scales(*dtype)) {
    const bool is_fp4 = *dtype == DType::kF4_E2M1;
    if (tensor.shape.size() != 2 || (is_fp4 && dims.in > static_cast<uint64_t>(std::numeric_limits<int>::max()) / 2)) {
      fail(ErrorCode::kUnsupported, entry,
           fmt::format("quantised with shape {}, expected a matrix", shape_text(tensor.shape)));
    }
    matrices.shape.in_dim *= is_fp4 ? 2 : 1;
    scales = read_scales(model, entry, matrices.shape);
  } else if (const SafetensorsModel::Entry* unused = find_scales(model, tensor.name)) {
    fail(ErrorCode::kBadModel, entry,
         fmt::format("{} with scales ({}), expected FP8 or packed FP4", safetensors_dtype_info(tensor.dtype).name,
                     printable(unused->tensor->name)));
  }
  const size_t slice_bytes = tensor.bytes.size() / dims.count;
  for (size_t i = 0; i < dims.count; ++i) {
    matrices.slices.push_back({tensor.bytes.data() + i * slice_bytes, scales});
  }
  return matrices;
}

}  // namespace fathom
