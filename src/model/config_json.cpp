#include <fmt/format.h>

#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/error.h"
#include "core/json_text.h"
#include "core/printable.h"
#include "model/config_check.h"
#include "model/config_fields.h"
#include "model/config_reader.h"
#include "model/json_fields.h"

namespace fathom {
namespace {

constexpr size_t kMaxConfigBytes = 16 << 20;

// Ratios by the port's names of layer kinds.
struct LayerKind {
  const char* name;
  int ratio;
};
constexpr std::array kLayerKinds = {
    LayerKind{"sliding_attention", 0},
    LayerKind{"compressed_sparse_attention", 4},
    LayerKind{"heavily_compressed_attention", 128},
};

class JsonConfigReader {
 public:
  explicit JsonConfigReader(JsonFields fields) : fields_(std::move(fields)) {}

  ModelConfig read() {
    fields_.require_text({"model_type"}, "deepseek_v4");
    ModelConfig config;
    config.n_layers = fields_.integer({"num_hidden_layers", "n_layers"}, 1, kMaxLayers);
    config.vocab = fields_.integer({"vocab_size"}, 1, kMaxVocab);
    for (const IntField& field : kIntFields) {
      config.*field.member = fields_.integer(field.json_keys, field.min, field.max);
    }
    for (const FloatField& field : kFloatFields) {
      if (field.in_every_json || fields_.has(field.json_keys)) {
        config.*field.member = fields_.positive(field.json_keys);
      }
    }
    config.compress_ratios = read_ratios(config.n_layers);
    config.n_hash_layers = read_hash_layers(config.n_layers);
    config.rope_dim = read_rope_dim(config.head_dim);
    config.swiglu_limit.assign(static_cast<size_t>(config.n_layers), fields_.number({"swiglu_limit"}));
    config.shared_swiglu_limit = config.swiglu_limit;
    read_rope(config);
    config.context_length = read_context(config);
    check_choices();
    check_config(config, fields_.file());
    return config;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw Error(ErrorCode::kBadModel, fmt::format("{}: {}", fields_.file(), what));
  }

  // compress_ratios may be longer: entries of appended prediction layers follow. The port has kinds of layers instead.
  [[nodiscard]] std::vector<int> read_ratios(int n_layers) const {
    std::vector<int> ratios;
    if (fields_.has({"compress_ratios"})) {
      ratios = fields_.integers({"compress_ratios"}, n_layers, 0, kMaxDim);
    }
    if (!ratios.empty() && !fields_.has({"layer_types"})) {
      return ratios;
    }
    if (ratios.empty() && !fields_.has({"layer_types"})) {
      fail("compress_ratios is missing, and so is layer_types");
    }
    std::vector<int> by_kind;
    for (const std::string& name : fields_.texts({"layer_types"}, n_layers)) {
      by_kind.push_back(ratio_of_kind(name));
    }
    if (!ratios.empty() && ratios != by_kind) {
      fail("layer_types contradicts compress_ratios");
    }
    check_rates();
    return by_kind;
  }

  [[nodiscard]] int ratio_of_kind(const std::string& name) const {
    for (const LayerKind& kind : kLayerKinds) {
      if (name == kind.name) {
        return kind.ratio;
      }
    }
    throw Error(ErrorCode::kUnsupported,
                fmt::format("{}: layer_types has {}, expected sliding_attention, compressed_sparse_attention or "
                            "heavily_compressed_attention",
                            fields_.file(), printable(name)));
  }

  void check_rates() const {
    if (!fields_.has({"compress_rates"})) {
      return;
    }
    const JsonFields rates = fields_.object("compress_rates");
    for (const LayerKind& kind : kLayerKinds) {
      if (kind.ratio > 0) {
        rates.require_integer(kind.name, kind.ratio);
      }
    }
  }

  [[nodiscard]] int read_hash_layers(int n_layers) const {
    const JsonKeys keys = {"num_hash_layers", "n_hash_layers"};
    const bool has_count = fields_.has(keys);
    const int count = has_count ? fields_.integer(keys, 0, kMaxLayers) : 0;
    if (!fields_.has({"mlp_layer_types"})) {
      if (!has_count) {
        fail("num_hash_layers is missing, and so is mlp_layer_types");
      }
      return count;
    }
    int n_hash = 0;
    int layer = 0;
    for (const std::string& kind : fields_.texts({"mlp_layer_types"}, n_layers)) {
      if (kind == "hash_moe" && n_hash == layer) {
        ++n_hash;
      } else if (kind != "moe") {
        throw Error(ErrorCode::kUnsupported,
                    fmt::format("{}: mlp_layer_types[{}] is {}, expected hash_moe in the first layers and moe in the "
                                "others",
                                fields_.file(), layer, printable(kind)));
      }
      ++layer;
    }
    if (has_count && count != n_hash) {
      fail(fmt::format("num_hash_layers is {}, expected the {} of mlp_layer_types", count, n_hash));
    }
    return n_hash;
  }

  [[nodiscard]] int read_rope_dim(int head_dim) const {
    const JsonKeys keys = {"qk_rope_head_dim", "rope_head_dim"};
    const bool has_dim = fields_.has(keys);
    if (!has_dim && !fields_.has({"partial_rotary_factor"})) {
      fail("qk_rope_head_dim is missing, and so is partial_rotary_factor");
    }
    const int dim = has_dim ? fields_.integer(keys, 2, kMaxDim) : 0;
    if (!fields_.has({"partial_rotary_factor"})) {
      return dim;
    }
    const double exact = static_cast<double>(fields_.positive({"partial_rotary_factor"})) * head_dim;
    const double nearest = std::round(exact);
    if (std::abs(exact - nearest) > 1e-3 || nearest < 2 || nearest > kMaxDim || (has_dim && nearest != dim)) {
      fail(fmt::format("partial_rotary_factor gives {} rotary dimensions, expected {}", exact,
                       has_dim ? fmt::format("{}", dim) : "an even count"));
    }
    return static_cast<int>(nearest);
  }

  void read_yarn(const JsonFields& scaling, const JsonKeys& type_keys, ModelConfig& config) const {
    if (const std::string type = scaling.text(type_keys); type != "yarn") {
      throw Error(ErrorCode::kUnsupported,
                  fmt::format("{}: rotary scaling is {}, expected yarn", fields_.file(), printable(type)));
    }
    config.yarn.factor = scaling.positive({"factor"});
    config.yarn.original_context = scaling.integer({"original_max_position_embeddings"}, 1, kMaxContext);
    config.yarn.beta_fast = scaling.positive({"beta_fast"});
    config.yarn.beta_slow = scaling.positive({"beta_slow"});
    scaling.require_number("attention_factor", 1.0F);
    scaling.require_number("mscale", 1.0F);
    scaling.require_number("mscale_all_dim", 1.0F);
    scaling.require_bool("truncate", true);
  }

  void read_rope(ModelConfig& config) const {
    if (fields_.has({"rope_parameters"})) {
      const JsonFields parameters = fields_.object("rope_parameters");
      const JsonFields main = parameters.object("main");
      main.require_text({"rope_type"}, "default");
      main.require_number("rope_theta", config.rope_theta);
      const JsonFields compress = parameters.object("compress");
      compress.require_number("rope_theta", config.compress_rope_theta);
      read_yarn(compress, {"rope_type"}, config);
    } else if (fields_.has({"rope_scaling"})) {
      read_yarn(fields_.object("rope_scaling"), {"type", "rope_type"}, config);
    } else {
      // The inference code's config has the same values on the top level.
      config.yarn.factor = fields_.positive({"rope_factor"});
      config.yarn.original_context = fields_.integer({"original_seq_len"}, 1, kMaxContext);
      config.yarn.beta_fast = fields_.positive({"beta_fast"});
      config.yarn.beta_slow = fields_.positive({"beta_slow"});
    }
  }

  // The inference code's config has no context length: there it is what YaRN stretches to.
  [[nodiscard]] int read_context(const ModelConfig& config) const {
    if (fields_.has({"max_position_embeddings"})) {
      return fields_.integer({"max_position_embeddings"}, 1, kMaxContext);
    }
    const double stretched = static_cast<double>(config.yarn.factor) * config.yarn.original_context;
    if (stretched > kMaxContext) {
      fail(fmt::format("rope_factor * original_seq_len is {}, expected at most {}", stretched, kMaxContext));
    }
    return static_cast<int>(stretched);
  }

  void check_choices() const {
    fields_.require_text({"scoring_func", "score_func"}, "sqrtsoftplus");
    fields_.require_text({"topk_method"}, "noaux_tc");
    fields_.require_text({"hidden_act"}, "silu");
    fields_.require_bool("norm_topk_prob", true);
    fields_.require_bool("attention_bias", false);
    fields_.require_bool("mlp_bias", false);
    fields_.require_bool("tie_word_embeddings", false);
    fields_.require_integer("num_key_value_heads", 1);
    fields_.require_integer("n_group", 1);
    fields_.require_integer("topk_group", 1);
  }

  JsonFields fields_;
};

}  // namespace

ModelConfig read_json_config(std::string_view text, const std::string& file) {
  if (text.size() > kMaxConfigBytes) {
    throw Error(ErrorCode::kBadModel,
                fmt::format("{}: {} bytes, expected at most {}", file, text.size(), kMaxConfigBytes));
  }
  const nlohmann::json json = parse_json(text, file);
  if (!json.is_object()) {
    throw Error(ErrorCode::kBadModel, fmt::format("{}: not a JSON object", file));
  }
  return JsonConfigReader(JsonFields(json, file)).read();
}

}  // namespace fathom
