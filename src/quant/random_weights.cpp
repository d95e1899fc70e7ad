#include "quant/random_weights.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>

#include "core/check.h"
#include "quant/quantize.h"

namespace fathom {
namespace {

constexpr int64_t kPoolElements = 16 * RandomWeights::kPieceElements;

// SplitMix64: a well-mixed function of its argument.
uint64_t mix(uint64_t x) {
  x += 0x9E3779B97F4A7C15ULL;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
  return x ^ (x >> 31);
}

uint64_t hash_name(std::string_view name) {
  uint64_t hash = 0xCBF29CE484222325ULL;  // FNV-1a
  for (const char c : name) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3ULL;
  }
  return hash;
}

double uniform(uint64_t bits) { return (static_cast<double>(bits >> 11) + 0.5) * 0x1p-53; }

// Box-Muller: the standard library's normal distribution differs between implementations.
std::vector<float> normal_values(int64_t n, uint64_t seed, float scale) {
  std::vector<float> values(static_cast<size_t>(n));
  for (size_t i = 0; i < values.size(); ++i) {
    const double radius = std::sqrt(-2.0 * std::log(uniform(mix(seed + 2 * i))));
    const double angle = 2.0 * std::numbers::pi * uniform(mix(seed + 2 * i + 1));
    values[i] = static_cast<float>(radius * std::cos(angle)) * scale;
  }
  return values;
}

bool is_gain(std::string_view name) { return name.ends_with("norm.weight") || name.ends_with("_scale.weight"); }

}  // namespace

float weight_scale(const TensorSpec& spec) {
  if (spec.name == "token_embd.weight") {
    return 1.0F;
  }
  if (spec.name.ends_with("_ape.weight")) {
    return 0.5F;
  }
  return 1.0F / std::sqrt(static_cast<float>(spec.in_dim));
}

void RandomWeights::fill(const TensorSpec& spec, int64_t first, std::span<std::byte> out, ThreadPool& pool) {
  FATHOM_CHECK(first % kPieceElements == 0, "a part starts where a piece does");
  switch (spec.kind) {
    case TensorSpec::Kind::kIdTable:
      return fill_ids(spec, first, out);
    case TensorSpec::Kind::kVector: {
      FATHOM_CHECK(spec.dtype == DType::kF32, "vectors are float32");
      const float value = is_gain(spec.name) ? 1.0F : 0.0F;
      for (size_t i = 0; i < out.size(); i += sizeof(float)) {
        std::memcpy(out.data() + i, &value, sizeof(float));
      }
      return;
    }
    case TensorSpec::Kind::kMatrix:
    case TensorSpec::Kind::kExperts:
      break;
  }
  const EncodedPool& source = encoded(spec.dtype, weight_scale(spec));
  const auto block_bytes = static_cast<size_t>(dtype_info(spec.dtype).block_bytes);
  const size_t piece_bytes = dtype_row_bytes(spec.dtype, kPieceElements);
  const uint64_t tensor_seed = mix(seed_ ^ hash_name(spec.name));
  const auto first_piece = static_cast<uint64_t>(first / kPieceElements);
  const auto n_pieces = static_cast<int64_t>((out.size() + piece_bytes - 1) / piece_bytes);
  pool.parallel_for(n_pieces, [&](Range range, int) {
    for (auto i = static_cast<uint64_t>(range.first); i < static_cast<uint64_t>(range.last); ++i) {
      const uint64_t start = mix(tensor_seed + first_piece + i) % static_cast<uint64_t>(source.starts);
      const std::span<std::byte> piece = out.subspan(i * piece_bytes);
      std::memcpy(piece.data(), source.bytes.data() + start * block_bytes, std::min(piece_bytes, piece.size()));
    }
  });
}

const RandomWeights::EncodedPool& RandomWeights::encoded(DType dtype, float scale) {
  EncodedPool& pool = pools_[{dtype, scale}];
  if (pool.starts == 0) {
    const std::vector<float> values = normal_values(kPoolElements, mix(seed_), scale);
    pool.bytes.resize(dtype_row_bytes(dtype, kPoolElements));
    quantize_row(dtype, values.data(), pool.bytes.data(), kPoolElements);
    pool.starts = (kPoolElements - kPieceElements) / dtype_info(dtype).block_size + 1;
  }
  return pool;
}

// The experts of a token are distinct: evenly spread from a random one on.
void RandomWeights::fill_ids(const TensorSpec& spec, int64_t first, std::span<std::byte> out) const {
  FATHOM_CHECK(spec.dtype == DType::kI32 && spec.in_dim <= n_experts_, "a table of distinct experts");
  const uint64_t tensor_seed = mix(seed_ ^ hash_name(spec.name));
  const int stride = n_experts_ / spec.in_dim;
  for (size_t i = 0; i < out.size() / sizeof(int32_t); ++i) {
    const int64_t element = first + static_cast<int64_t>(i);
    const auto row = static_cast<uint64_t>(element / spec.in_dim);
    const auto start = static_cast<int>(mix(tensor_seed + row) % static_cast<uint64_t>(n_experts_));
    const int32_t id = (start + static_cast<int>(element % spec.in_dim) * stride) % n_experts_;
    std::memcpy(out.data() + i * sizeof(id), &id, sizeof(id));
  }
}

}  // namespace fathom
