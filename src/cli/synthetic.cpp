#include "cli/synthetic.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/exit_code.h"
#include "core/log.h"
#include "model/model.h"
#include "model/shapes.h"
#include "quant/recipe.h"

namespace fathom::cli {
namespace {

struct ExpertTypes {
  DType gate_up;
  DType down;
};

DType parse_type(std::string_view text, const std::string& all) {
  const std::optional<DType> type = dtype_from_name(text);
  const auto known = convertible_types();
  if (!type || std::find(known.begin(), known.end(), *type) == known.end()) {
    throw UsageError(fmt::format("--experts {}: '{}' is no type of weights, expected one such as Q4_K", all, text));
  }
  return *type;
}

ExpertTypes parse_expert_types(const std::string& text) {
  const size_t slash = text.find('/');
  const DType gate_up = parse_type(std::string_view(text).substr(0, slash), text);
  const DType down = slash == std::string::npos ? gate_up : parse_type(std::string_view(text).substr(slash + 1), text);
  return {gate_up, down};
}

// Block types would cost the small matrices that choose and pool what the rest works on more than they save.
Recipe recipe_for(std::optional<DType> rest) {
  const DType dense = rest.value_or(DType::kQ8_0);
  const DType small = rest && dtype_info(*rest).is_float ? *rest : DType::kF16;
  Recipe recipe;
  recipe.all = dense;
  recipe.embedding = small;
  recipe.compressor = small;
  return recipe;
}

}  // namespace

SyntheticModel plan_synthetic(const SyntheticOptions& options) {
  SyntheticModel model;
  model.config = named_shape(options.shape);
  if (options.layers) {
    model.config = first_layers(model.config, *options.layers);
  }
  const ExpertTypes experts = parse_expert_types(options.experts);
  Recipe recipe = recipe_for(options.rest);
  model.tensors = list_tensors(model.config);
  size_t n_fallback = 0;
  for (TensorSpec& tensor : model.tensors) {
    recipe.experts = tensor.name.ends_with("ffn_down_exps.weight") ? experts.down : experts.gate_up;
    const DType chosen = recipe.choose(classify_tensor(tensor.name).value(), tensor.dtype);
    tensor.dtype = fit_to_row(chosen, tensor.in_dim);
    n_fallback += tensor.dtype != chosen ? 1 : 0;
  }
  if (n_fallback > 0) {
    log_warn(fmt::format("{} tensors have rows that are no multiple of a block: they are BF16", n_fallback));
  }
  return model;
}

}  // namespace fathom::cli
