#include "cli/convert.h"

#include <fmt/format.h>

#include <filesystem>
#include <memory>

#include "cli/exit_code.h"
#include "cli/numbers.h"
#include "cli/progress.h"
#include "cli/text_io.h"
#include "cli/text_model.h"
#include "core/cpu_count.h"
#include "core/error.h"
#include "core/log.h"
#include "gguf/gguf_writer.h"
#include "model/config_reader.h"
#include "model/config_writer.h"
#include "model/model.h"
#include "quant/transcode.h"
#include "tokenizer/tokenizer_data.h"
#include "weights/id_table.h"

namespace fathom::cli {
namespace {

struct PlannedTensor {
  Weight weight;
  TensorClass tensor_class;
  DType target;
};

// Every tensor of the model with its type, in the order of the file. Throws what bind_weights throws: a source that
// could not run is not converted either.
std::vector<PlannedTensor> plan_tensors(const WeightSource& source, const ModelConfig& config, const Recipe& recipe) {
  std::vector<PlannedTensor> plan;
  size_t n_fallback = 0;
  Model model = bind_weights(source, config);
  for_each_weight(model, [&](Weight& weight, WeightRole) {
    const std::optional<TensorClass> tensor_class = classify_tensor(weight.name);
    if (!tensor_class) {
      throw Error(ErrorCode::kUnsupported, fmt::format("{}: no rule for converting this tensor", weight.name));
    }
    const DType chosen = recipe.choose(*tensor_class, weight.dtype);
    const DType target = fit_to_row(chosen, weight.in_dim);
    n_fallback += target != chosen ? 1 : 0;
    plan.push_back({weight, *tensor_class, target});
  });
  if (n_fallback > 0) {
    log_warn(fmt::format("{} tensors have rows that are no multiple of a block: stored as BF16", n_fallback));
  }
  return plan;
}

GgufTensorInfo describe(const PlannedTensor& planned) {
  const Weight& w = planned.weight;
  GgufTensorInfo info{.name = std::string(w.name), .dtype = planned.target, .dims = {static_cast<uint64_t>(w.in_dim)}};
  const bool is_vector = w.out_dim == 1 && w.count() == 1 && planned.tensor_class == TensorClass::kPrecise;
  if (!is_vector) {
    info.dims.push_back(static_cast<uint64_t>(w.out_dim));
  }
  if (planned.tensor_class == TensorClass::kExperts) {
    info.dims.push_back(static_cast<uint64_t>(w.count()));
  }
  return info;
}

// Readers take the length of the token list for the size of the vocabulary, so unused rows get names as well.
std::vector<GgufKv> describe_tokenizer(const WeightSource& source, int vocab) {
  if (source.tokenizer_json().empty()) {
    log_warn(fmt::format("{}: no tokenizer.json: the file will run on token ids only", source.path()));
    return {GgufKv::string("tokenizer.ggml.model", "none")};
  }
  TokenizerData data = load_tokenizer(source).data();
  if (data.tokens.size() > static_cast<size_t>(vocab)) {
    throw Error(ErrorCode::kBadModel, fmt::format("{}: tokenizer.json has {} tokens, the embedding {} rows",
                                                  source.path(), data.tokens.size(), vocab));
  }
  for (size_t id = data.tokens.size(); id < static_cast<size_t>(vocab); ++id) {
    data.tokens.push_back(fmt::format("[unused {}]", id));
    data.types.push_back(TokenType::kUnused);
  }
  return gguf_tokenizer_metadata(data);
}

std::vector<GgufKv> describe_model(const ConvertOptions& options, const WeightSource& source, ModelConfig config,
                                   const std::vector<PlannedTensor>& plan) {
  if (!options.name.empty()) {
    config.name = options.name;
  }
  std::vector<GgufKv> metadata = gguf_config_metadata(config);
  const auto experts = std::find_if(plan.begin(), plan.end(), [](const PlannedTensor& planned) {
    return planned.tensor_class == TensorClass::kExperts;
  });
  metadata.push_back(GgufKv::u32("general.file_type", gguf_file_type(experts->target)));
  metadata.push_back(GgufKv::u32("general.quantization_version", 2));
  const ChatDialect dialect = options.dialect.value_or(detect_dialect({.name = config.name}));
  metadata.push_back(GgufKv::string(kDialectKey, dialect == ChatDialect::kOfficial ? "official" : "preview"));
  for (GgufKv& key : describe_tokenizer(source, config.vocab)) {
    metadata.push_back(std::move(key));
  }
  return metadata;
}

void write_tensors(const std::vector<PlannedTensor>& plan, const ModelConfig& config, GgufWriter& out) {
  uint64_t total = 0;
  for (const PlannedTensor& planned : plan) {
    total += transcoded_bytes(planned.weight, planned.target);
  }
  Progress progress("converting", total);
  ThreadPool pool({.threads = default_thread_count()});
  for (const PlannedTensor& planned : plan) {
    const auto write = [&](std::span<const std::byte> bytes) {
      out.write(bytes);
      progress.advance(bytes.size());
    };
    if (planned.tensor_class == TensorClass::kIdTable) {
      write(std::as_bytes(std::span<const int32_t>(read_id_table(planned.weight, config.n_experts))));
    } else {
      transcode(planned.weight, planned.target, pool, write);
    }
  }
}

// Files of the source are mapped while the new one is written, and a checkpoint is not what a conversion replaces.
void check_target(const ConvertOptions& options) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  const fs::path out(options.out);
  const fs::path folder = out.has_parent_path() ? out.parent_path() : fs::path(".");
  const bool beside = out.extension() != ".gguf" && fs::equivalent(folder, options.source, ignored);
  if (fs::exists(out, ignored) && (beside || fs::equivalent(out, options.source, ignored))) {
    throw Error(ErrorCode::kBadRequest, fmt::format("{}: is a file of the source, expected another name", options.out));
  }
}

}  // namespace

int convert(const ConvertOptions& options) {
  const std::unique_ptr<WeightSource> source = WeightSource::open(options.source);
  if (source->gguf() != nullptr) {
    throw Error(ErrorCode::kBadRequest,
                fmt::format("{}: is a GGUF file; expected a safetensors directory", options.source));
  }
  check_target(options);
  const ModelConfig config = read_config(*source);
  const std::vector<PlannedTensor> plan = plan_tensors(*source, config, options.recipe);
  std::vector<GgufTensorInfo> tensors;
  tensors.reserve(plan.size());
  for (const PlannedTensor& planned : plan) {
    tensors.push_back(describe(planned));
  }
  const std::vector<GgufKv> metadata = describe_model(options, *source, config, plan);
  GgufWriter out(options.out, metadata, std::move(tensors));
  write_tensors(plan, config, out);
  out.finish();
  write_stdout(fmt::format("{}: {} tensors, {}\n", options.out, plan.size(),
                           format_bytes(std::filesystem::file_size(options.out))));
  return kExitOk;
}

}  // namespace fathom::cli
