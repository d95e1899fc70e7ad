// Which model this is and how it computes, in 128 bits: two engines with the same fingerprint compute the same rows.
#pragma once

#include <string_view>

#include "backend/cache_layout.h"
#include "cache/segment_file.h"
#include "core/model_config.h"
#include "weights/weight_source.h"

namespace fathom {

// Of name, type, shape and a sample of the bytes of every tensor, of the config, of the form of cached rows, and of
// `numerics` (backend/numerics.h). Reads a few pages of every tensor.
[[nodiscard]] PrefixKey model_fingerprint(const WeightSource& source, const ModelConfig& config,
                                          const CacheLayout& layout, std::string_view numerics);

}  // namespace fathom
