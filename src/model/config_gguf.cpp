#include <fmt/format.h>

#include <algorithm>

#include "core/error.h"
#include "core/printable.h"
#include "gguf/gguf_file.h"
#include "model/config_check.h"
#include "model/config_fields.h"
#include "model/config_reader.h"

namespace fathom {
namespace {

constexpr std::string_view kArchitecture = "deepseek4";
constexpr int64_t kSqrtSoftplus = 4;  // number of the gating function

class GgufConfigReader {
 public:
  explicit GgufConfigReader(const GgufFile& file) : file_(file) {}

  ModelConfig read() {
    check_architecture();
    ModelConfig config;
    if (const GgufValue* name = file_.find("general.name")) {
      config.name = std::string(name->to_string());
    }
    read_layers(config);
    for (const IntField& field : kIntFields) {
      config.*field.member = uniform_int(field.gguf_key, field.min, field.max);
    }
    for (const FloatField& field : kFloatFields) {
      if (field.in_every_gguf || find(field.gguf_key) != nullptr) {
        config.*field.member = positive(field.gguf_key);
      }
    }
    config.context_length = uniform_int("context_length", 1, kMaxContext);
    config.n_hash_layers = uniform_int("hash_layer_count", 0, kMaxLayers);
    config.rope_dim = uniform_int("rope.dimension_count", 2, kMaxDim);
    config.vocab = read_vocab();
    read_yarn(config);
    read_limits(config);
    check_choices(config);
    check_config(config, file_.path());
    return config;
  }

 private:
  static std::string full(std::string_view key) { return fmt::format("{}.{}", kArchitecture, key); }
  [[nodiscard]] const GgufValue* find(std::string_view key) const { return file_.find(full(key)); }
  [[nodiscard]] const GgufValue& at(std::string_view key) const { return file_.at(full(key)); }

  [[noreturn]] void fail(ErrorCode code, std::string_view key, const std::string& what) const {
    throw Error(code, fmt::format("{}: {} {}", file_.path(), full(key), what));
  }

  // Some writers repeat a value for every layer. Here all layers have the same.
  [[nodiscard]] int uniform_int(std::string_view key, int min, int max) const {
    const std::vector<int64_t> values = at(key).to_ints_per_layer(n_layers_, min, max);
    for (size_t i = 1; i < values.size(); ++i) {
      if (values[i] != values[0]) {
        fail(ErrorCode::kUnsupported, key,
             fmt::format("is {} for layer 0 and {} for layer {}, expected one value", values[0], values[i], i));
      }
    }
    return static_cast<int>(values[0]);
  }

  [[nodiscard]] float positive(std::string_view key) const {
    return checked_positive(at(key).to_float(), file_.path(), full(key));
  }

  // The value may be absent; if it is there, the code has no other.
  void require_int(std::string_view key, int64_t expected) const {
    const GgufValue* value = find(key);
    if (value == nullptr) {
      return;
    }
    for (const int64_t got : value->to_ints_per_layer(n_layers_)) {
      if (got != expected) {
        fail(ErrorCode::kUnsupported, key, fmt::format("is {}, expected {}", got, expected));
      }
    }
  }

  void check_architecture() const {
    const std::string_view architecture = file_.at("general.architecture").to_string();
    if (architecture != kArchitecture) {
      throw Error(ErrorCode::kUnsupported, fmt::format("{}: general.architecture is {}, expected {}", file_.path(),
                                                       printable(architecture), kArchitecture));
    }
  }

  // block_count includes appended blocks of multi-token prediction. The count of those may be left over from the
  // model a file was made of: it holds only if their tensors are there.
  void read_layers(ModelConfig& config) {
    const int64_t n_blocks = at("block_count").to_int(1, kMaxLayers);
    int64_t n_appended = 0;
    if (const GgufValue* value = find("nextn_predict_layers")) {
      n_appended = value->to_int(0, n_blocks - 1);
    }
    if (file_.find_tensor(fmt::format("blk.{}.nextn.eh_proj.weight", n_blocks - n_appended)) == nullptr) {
      n_appended = 0;
    }
    config.n_layers = n_layers_ = static_cast<int>(n_blocks - n_appended);
    const GgufValue& ratios = at("attention.compress_ratios");
    if (!ratios.is_array()) {
      fail(ErrorCode::kBadModel, "attention.compress_ratios",
           fmt::format("is {}, expected an array of integers", ratios.type_text()));
    }
    for (const int64_t ratio : ratios.to_ints_per_layer(n_layers_, 0, kMaxDim)) {
      config.compress_ratios.push_back(static_cast<int>(ratio));
    }
  }

  // The rows of the token table; a tokenizer may know fewer tokens.
  [[nodiscard]] int read_vocab() const {
    const GgufValue* tokens = file_.find("tokenizer.ggml.tokens");
    const uint64_t n_tokens = tokens == nullptr ? 0 : tokens->count();
    if (const GgufValue* value = find("vocab_size")) {
      const int vocab = static_cast<int>(value->to_int(1, kMaxVocab));
      if (n_tokens > static_cast<uint64_t>(vocab)) {
        fail(ErrorCode::kBadModel, "vocab_size",
             fmt::format("is {}, expected at least the tokenizer's {} tokens", vocab, n_tokens));
      }
      return vocab;
    }
    const GgufTensor* table = file_.find_tensor("token_embd.weight");
    const uint64_t vocab = table == nullptr ? n_tokens : table->dims[1];
    if (vocab < 1 || vocab > kMaxVocab || n_tokens > vocab) {
      fail(ErrorCode::kBadModel, "vocab_size",
           fmt::format("is missing, and {} rows of token_embd.weight with {} tokens do not stand for it",
                       table == nullptr ? 0 : vocab, n_tokens));
    }
    return static_cast<int>(vocab);
  }

  void read_yarn(ModelConfig& config) const {
    config.yarn.original_context = config.context_length;
    const GgufValue* type = find("rope.scaling.type");
    const GgufValue* factor = find("rope.scaling.factor");
    // Without a type a factor would mean linear scaling.
    const std::string_view name = type != nullptr ? type->to_string() : factor != nullptr ? "linear" : "none";
    if (name == "none") {
      return;
    }
    if (name != "yarn") {
      fail(ErrorCode::kUnsupported, "rope.scaling.type", fmt::format("is {}, expected yarn or none", printable(name)));
    }
    config.yarn.factor = positive("rope.scaling.factor");
    if (find("rope.scaling.original_context_length") != nullptr) {
      config.yarn.original_context = uniform_int("rope.scaling.original_context_length", 1, kMaxContext);
    }
    if (find("rope.scaling.yarn_beta_fast") != nullptr) {
      config.yarn.beta_fast = positive("rope.scaling.yarn_beta_fast");
    }
    if (find("rope.scaling.yarn_beta_slow") != nullptr) {
      config.yarn.beta_slow = positive("rope.scaling.yarn_beta_slow");
    }
    if (const GgufValue* factor_of_attention = find("rope.scaling.attn_factor");
        factor_of_attention != nullptr && factor_of_attention->to_float() != 1.0) {
      fail(ErrorCode::kUnsupported, "rope.scaling.attn_factor",
           fmt::format("is {}, expected 1", factor_of_attention->to_float()));
    }
  }

  [[nodiscard]] std::vector<float> limits(const GgufValue& value) const {
    const std::vector<double> wide = value.to_floats_per_layer(n_layers_);
    std::vector<float> narrow(wide.size());
    std::transform(wide.begin(), wide.end(), narrow.begin(), [](double limit) { return static_cast<float>(limit); });
    return narrow;
  }

  void read_limits(ModelConfig& config) const {
    config.swiglu_limit = limits(at("swiglu_clamp_exp"));
    const GgufValue* shared = find("swiglu_clamp_shexp");
    config.shared_swiglu_limit = shared == nullptr ? config.swiglu_limit : limits(*shared);
  }

  void check_choices(const ModelConfig& config) const {
    require_int("attention.head_count_kv", 1);
    require_int("attention.value_length", config.head_dim);
    if (const int64_t gating = at("expert_gating_func").to_int(); gating != kSqrtSoftplus) {
      fail(ErrorCode::kUnsupported, "expert_gating_func",
           fmt::format("is {}, expected {} (sqrt of softplus)", gating, kSqrtSoftplus));
    }
    if (!at("expert_weights_norm").to_bool()) {
      fail(ErrorCode::kUnsupported, "expert_weights_norm", "is false, expected true");
    }
    for (const char* key : {"expert_group_count", "expert_group_used_count"}) {
      if (const GgufValue* value = find(key); value != nullptr && value->to_int() > 1) {
        fail(ErrorCode::kUnsupported, key, fmt::format("is {}, expected no groups", value->to_int()));
      }
    }
  }

  const GgufFile& file_;
  int n_layers_ = 0;  // of the main model
};

}  // namespace

ModelConfig read_gguf_config(const GgufFile& file) { return GgufConfigReader(file).read(); }

}  // namespace fathom
