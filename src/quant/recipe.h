// Which type each tensor of a written model gets.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "core/dtype.h"

namespace fathom {

// What a tensor is for, as far as its stored type is concerned.
enum class TensorClass : uint8_t {
  kPrecise,  // vectors, and the small matrices that steer the rest (router, hyper-connections, position bias): F32
  kIdTable,  // I32
  kEmbedding,
  kOutput,
  kAttention,
  kCompressor,  // of attention and indexer, and the indexer's own matrices
  kSharedExpert,
  kExperts,
};

// By canonical name. Empty for a tensor that is not part of the main model.
[[nodiscard]] std::optional<TensorClass> classify_tensor(std::string_view name) noexcept;

// Types of the classes that have a choice; unset: `all`, and if that is unset too, the source's own type or the nearest
// one that GGUF has (F8_E4M3: Q8_0; F4_E2M1: MXFP4, exact).
struct Recipe {
  std::optional<DType> all;
  std::optional<DType> embedding;
  std::optional<DType> output;
  std::optional<DType> attention;
  std::optional<DType> compressor;
  std::optional<DType> shared;
  std::optional<DType> experts;

  [[nodiscard]] DType choose(TensorClass tensor_class, DType source) const;
};

// The type for a matrix with rows of `row` elements: BF16 where they are no multiple of the chosen type's block.
[[nodiscard]] DType fit_to_row(DType chosen, int64_t row) noexcept;

// The number in general.file_type, by which other programs name a file whose routed experts have this type.
[[nodiscard]] uint32_t gguf_file_type(DType experts) noexcept;

// What a matrix can be converted to.
[[nodiscard]] std::span<const DType> convertible_types() noexcept;

}  // namespace fathom
