#include "cli/inspect.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "backend/cpu/cpu_ops.h"
#include "cli/exit_code.h"
#include "cli/model_options.h"
#include "cli/numbers.h"
#include "cli/text_io.h"
#include "core/error.h"
#include "core/printable.h"
#include "gguf/gguf_file.h"
#include "model/config_reader.h"
#include "model/forward.h"
#include "weights/weight_size.h"
#include "weights/weight_source.h"

namespace fathom::cli {
namespace {

using Json = nlohmann::ordered_json;

Json shape_of(const Weight& w) {
  Json shape = Json::array();
  if (w.count() > 1) {
    shape.push_back(w.count());
  }
  if (w.out_dim > 1 || w.count() > 1) {
    shape.push_back(w.out_dim);
  }
  shape.push_back(w.in_dim);
  return shape;
}

Json describe_types(const WeightSource& source) {
  struct Total {
    size_t tensors = 0;
    uint64_t elements = 0;
    uint64_t bytes = 0;
  };
  std::map<DType, Total> totals;
  for (const Weight& w : source.tensors()) {
    Total& total = totals[w.dtype];
    ++total.tensors;
    total.elements += weight_elements(w);
    total.bytes += weight_bytes(w);
  }
  Json types = Json::array();
  for (const auto& [dtype, total] : totals) {
    types.push_back({{"type", dtype_info(dtype).name},
                     {"tensors", total.tensors},
                     {"elements", total.elements},
                     {"bytes", total.bytes}});
  }
  return types;
}

Json describe_tensors(const WeightSource& source) {
  Json tensors = Json::array();
  for (const Weight& w : source.tensors()) {
    tensors.push_back(
        {{"name", w.name}, {"type", dtype_info(w.dtype).name}, {"shape", shape_of(w)}, {"bytes", weight_bytes(w)}});
  }
  return tensors;
}

Json describe_config(const ModelConfig& c) {
  return {{"layers", c.n_layers},
          {"hidden", c.hidden},
          {"vocab", c.vocab},
          {"context_length", c.context_length},
          {"heads", c.n_heads},
          {"head_dim", c.head_dim},
          {"rope_dim", c.rope_dim},
          {"q_lora_rank", c.q_lora_rank},
          {"o_lora_rank", c.o_lora_rank},
          {"o_groups", c.o_groups},
          {"window", c.window},
          {"compress_ratios", c.compress_ratios},
          {"index_heads", c.index_heads},
          {"index_dim", c.index_dim},
          {"index_topk", c.index_topk},
          {"experts", c.n_experts},
          {"experts_used", c.n_experts_used},
          {"shared_experts", c.n_shared_experts},
          {"expert_ffn", c.expert_ffn},
          {"hash_layers", c.n_hash_layers},
          {"residual_streams", c.hc}};
}

// Long arrays (a vocabulary) are described, not listed.
Json metadata_value(const GgufValue& value) {
  constexpr uint64_t kListed = 64;
  if (value.is_array() && (value.count() > kListed || value.element_type() == GgufType::kString)) {
    return value.type_text();
  }
  switch (value.element_type()) {
    case GgufType::kString:
      return printable(value.to_string(), 256);
    case GgufType::kBool:
      return value.is_array() ? Json(value.type_text()) : Json(value.to_bool());
    case GgufType::kF32:
    case GgufType::kF64:
      return value.is_array() ? Json(value.to_floats()) : Json(value.to_float());
    default:
      return value.is_array() ? Json(value.to_ints()) : Json(value.to_int());
  }
}

Json describe_metadata(const GgufFile& file) {
  Json metadata = Json::object();
  for (const GgufValue& value : file.metadata()) {
    metadata[printable(value.key())] = metadata_value(value);
  }
  return metadata;
}

// What the cpu backend keeps of the weights: repacked matrices, the rest in float32, the embedding in the mapped file.
uint64_t cpu_weight_bytes(const WeightSource& source, const ModelConfig& config) {
  Model model = bind_weights(source, config);
  uint64_t bytes = 0;
  for_each_weight(model, [&](const Weight& w, WeightRole role) {
    const bool is_matrix = role == WeightRole::kMatrix || role == WeightRole::kExperts;
    const bool as_stored = role == WeightRole::kEmbedding;
    bytes += is_matrix ? cpu::packed_bytes(w) : as_stored ? weight_bytes(w) : weight_elements(w) * sizeof(float);
  });
  return bytes;
}

// What running the model takes on the cpu backend. `weight_bytes`: as the file stores them.
Json plan_memory(const InspectOptions& options, const WeightSource& source, const ModelConfig& config,
                 uint64_t weight_bytes) {
  CacheOptions cache;
  cache.activation_sim = options.activation_sim;
  cache.kv_type = options.kv_type.value_or(default_kv_type(BackendKind::kAuto, options.activation_sim));
  const CacheLayout layout = CacheLayout::make(config, cache);
  const int context = options.context.value_or(config.context_length);
  if (context > config.context_length) {
    throw Error(ErrorCode::kContextBound,
                fmt::format("a context of {} positions exceeds the model's {}", context, config.context_length));
  }
  const CacheBytes bytes = layout.bytes_for(context, options.sequences);
  const BackendOptions backend{.kind = BackendKind::kCpu, .cache = cache};
  cpu::CpuOps ops(config, backend);
  (void)Scratch::make(ops, config, backend.max_rows, options.sequences);
  const uint64_t packed = cpu_weight_bytes(source, config);
  return {{"context", context},
          {"sequences", options.sequences},
          {"kv_type", cache.kv_type == KvType::kPacked ? "packed" : "f32"},
          {"weight_bytes", weight_bytes},
          {"packed_weight_bytes", packed},
          {"activation_bytes", ops.scratch_bytes()},
          {"cache_bytes", bytes.total()},
          {"cache_window_bytes", bytes.window},
          {"cache_state_bytes", bytes.states},
          {"cache_compressed_bytes", bytes.compressed},
          {"cache_index_bytes", bytes.index},
          {"total_bytes", packed + ops.scratch_bytes() + bytes.total()}};
}

Json describe(const InspectOptions& options, const WeightSource& source) {
  const ModelConfig config = read_config(source);
  uint64_t parameters = 0;
  uint64_t bytes = 0;
  for (const Weight& w : source.tensors()) {
    const bool is_table = w.dtype == DType::kI32 || w.dtype == DType::kI64;
    parameters += is_table ? 0 : weight_elements(w);
    bytes += weight_bytes(w);
  }
  Json report{{"path", source.path()},           {"format", source.gguf() != nullptr ? "gguf" : "safetensors"},
              {"name", printable(config.name)},  {"tensors", source.tensors().size()},
              {"parameters", parameters},        {"bytes", bytes},
              {"types", describe_types(source)}, {"config", describe_config(config)}};
  if (source.gguf() != nullptr) {
    report["metadata"] = describe_metadata(*source.gguf());
  }
  if (options.tensors) {
    report["tensor_list"] = describe_tensors(source);
  }
  if (options.plan) {
    report["plan"] = plan_memory(options, source, config, bytes);
  }
  return report;
}

// "[3, 4096]" for arrays; strings without quotes.
std::string text_of(const Json& value) { return value.is_string() ? value.get<std::string>() : value.dump(); }

std::string format_section(const Json& section) {
  std::string text;
  for (const auto& [key, value] : section.items()) {
    const bool is_size = key.ends_with("bytes");
    text += fmt::format("  {:<44} {}\n", key, is_size ? format_bytes(value.get<uint64_t>()) : text_of(value));
  }
  return text;
}

std::string format_report(const Json& report) {
  std::string text = fmt::format("{} ({}, {})\n{} parameters in {} tensors, {}\n", report["path"].get<std::string>(),
                                 report["name"].get<std::string>(), report["format"].get<std::string>(),
                                 format_count(report["parameters"].get<uint64_t>()), report["tensors"].get<size_t>(),
                                 format_bytes(report["bytes"].get<uint64_t>()));
  text += "\ntypes\n";
  for (const Json& type : report["types"]) {
    text += fmt::format("  {:<8} {:>6} tensors {:>10} values {:>12}\n", type["type"].get<std::string>(),
                        type["tensors"].get<size_t>(), format_count(type["elements"].get<uint64_t>()),
                        format_bytes(type["bytes"].get<uint64_t>()));
  }
  text += "\nconfig\n" + format_section(report["config"]);
  if (report.contains("metadata")) {
    text += "\nmetadata\n" + format_section(report["metadata"]);
  }
  if (report.contains("tensor_list")) {
    text += "\ntensors\n";
    for (const Json& tensor : report["tensor_list"]) {
      text += fmt::format("  {:<44} {:<8} {:>12} {}\n", printable(tensor["name"].get<std::string>()),
                          tensor["type"].get<std::string>(), format_bytes(tensor["bytes"].get<uint64_t>()),
                          tensor["shape"].dump());
    }
  }
  if (report.contains("plan")) {
    text += "\nplan\n" + format_section(report["plan"]);
  }
  return text;
}

}  // namespace

int inspect(const InspectOptions& options) {
  const std::unique_ptr<WeightSource> source = WeightSource::open(model_path(options.model));
  const Json report = describe(options, *source);
  // Paths and names may hold any bytes; JSON may not.
  const auto replace = Json::error_handler_t::replace;
  write_stdout(options.json ? report.dump(2, ' ', false, replace) + "\n" : format_report(report));
  return kExitOk;
}

}  // namespace fathom::cli
