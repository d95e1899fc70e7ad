#include "cli/synth.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "cli/exit_code.h"
#include "cli/numbers.h"
#include "cli/progress.h"
#include "cli/text_io.h"
#include "cli/text_model.h"
#include "core/cpu_count.h"
#include "core/prompt_text.h"
#include "gguf/gguf_writer.h"
#include "model/config_writer.h"
#include "quant/random_weights.h"
#include "quant/recipe.h"
#include "tokenizer/byte_alphabet.h"
#include "tokenizer/tokenizer_data.h"

namespace fathom::cli {
namespace {

constexpr uint64_t kSeed = 1;

// Every byte is a token, so that any text can be fed; the rest of the vocabulary has names only.
TokenizerData byte_tokenizer(int vocab) {
  TokenizerData data;
  const auto add = [&](std::string_view token, TokenType type) {
    data.tokens.emplace_back(token);
    data.types.push_back(type);
  };
  for (const std::string_view token : {literal::kBos, literal::kEos, literal::kPad}) {
    add(token, TokenType::kControl);
  }
  data.bos = 0;
  data.eos = 1;
  data.pad = 2;
  for (const std::string_view token :
       {literal::kUser, literal::kAssistant, literal::kThink, literal::kEndThink, literal::kDsml}) {
    add(token, TokenType::kUserDefined);
  }
  for (int byte = 0; byte < 256; ++byte) {
    const auto c = static_cast<char>(byte);
    add(spelling_of_bytes({&c, 1}), TokenType::kNormal);
  }
  while (data.tokens.size() < static_cast<size_t>(vocab)) {
    add(fmt::format("[unused {}]", data.tokens.size()), TokenType::kUnused);
  }
  return data;
}

std::vector<GgufKv> describe_model(const SyntheticModel& model) {
  const ModelConfig& config = model.config;
  std::vector<GgufKv> metadata = gguf_config_metadata(config);
  const auto experts = std::find_if(model.tensors.begin(), model.tensors.end(),
                                    [](const TensorSpec& spec) { return spec.kind == TensorSpec::Kind::kExperts; });
  metadata.push_back(GgufKv::u32("general.file_type", gguf_file_type(experts->dtype)));
  metadata.push_back(GgufKv::u32("general.quantization_version", 2));
  metadata.push_back(GgufKv::string(kDialectKey, "official"));
  for (GgufKv& key : gguf_tokenizer_metadata(byte_tokenizer(config.vocab))) {
    metadata.push_back(std::move(key));
  }
  return metadata;
}

GgufTensorInfo describe(const TensorSpec& spec) {
  GgufTensorInfo info{.name = spec.name, .dtype = spec.dtype, .dims = {static_cast<uint64_t>(spec.in_dim)}};
  if (spec.kind != TensorSpec::Kind::kVector) {
    info.dims.push_back(static_cast<uint64_t>(spec.out_dim));
  }
  if (spec.kind == TensorSpec::Kind::kExperts) {
    info.dims.push_back(static_cast<uint64_t>(spec.count));
  }
  return info;
}

void write_tensors(const SyntheticModel& model, GgufWriter& out) {
  constexpr int64_t kPartElements = int64_t{8} << 20;  // a multiple of a piece
  uint64_t total = 0;
  for (const TensorSpec& spec : model.tensors) {
    total += spec.n_bytes();
  }
  Progress progress("writing", total);
  ThreadPool pool({.threads = default_thread_count()});
  RandomWeights weights(kSeed, model.config.n_experts);
  std::vector<std::byte> part;
  for (const TensorSpec& spec : model.tensors) {
    const uint64_t part_bytes = dtype_row_bytes(spec.dtype, kPartElements);
    int64_t first = 0;
    for (uint64_t done = 0; done < spec.n_bytes(); done += part.size(), first += kPartElements) {
      part.resize(std::min(part_bytes, spec.n_bytes() - done));
      weights.fill(spec, first, part, pool);
      out.write(part);
      progress.advance(part.size());
    }
  }
}

}  // namespace

int synth(const SynthOptions& options) {
  const SyntheticModel model = plan_synthetic(options.model);
  std::vector<GgufTensorInfo> tensors;
  for (const TensorSpec& spec : model.tensors) {
    tensors.push_back(describe(spec));
  }
  GgufWriter out(options.out, describe_model(model), std::move(tensors));
  write_tensors(model, out);
  out.finish();
  write_stdout(fmt::format("{}: {} tensors, {}\n", options.out, model.tensors.size(),
                           format_bytes(std::filesystem::file_size(options.out))));
  return kExitOk;
}

}  // namespace fathom::cli
