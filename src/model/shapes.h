// Models known by name, for synthetic weights: the two that exist, and two small ones with all their parts.
#pragma once

#include <span>
#include <string_view>

#include "core/model_config.h"

namespace fathom {

// tiny: a layer of each kind in 9 M weights, for tests. mid: about 1 G weights with heads of the real size, for
// measuring on small machines. flash, pro: DeepSeek-V4-Flash and -Pro.
[[nodiscard]] std::span<const std::string_view> shape_names() noexcept;

// Throws kBadRequest for another name.
[[nodiscard]] ModelConfig named_shape(std::string_view name);

// The first `n_layers` layers of it. Throws kBadRequest when there are fewer.
[[nodiscard]] ModelConfig first_layers(ModelConfig config, int n_layers);

}  // namespace fathom
