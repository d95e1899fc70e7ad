// Full-size speed of the CUDA backend without a file: a model of Flash's shape with random weights built in device
// memory, prompts and decoding through the same forward() as everything else. Prints predictions' raw material:
// measured copy bandwidth, bytes per token, tokens per second.
#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "backend/cuda/check.h"
#include "backend/ops.h"
#include "model/forward.h"
#include "model/model.h"

namespace fathom {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

struct Settings {
  int layers = 43;
  DType gate_up = DType::kIQ2_XXS;
  DType down = DType::kQ2_K;
  DType rest = DType::kQ8_0;
  DType narrow = DType::kF16;  // compressors, indexer, embedding
  bool prefill = true;
  bool decode = true;
  bool deep = true;
  bool batch = true;
  int sequences = 0;  // only this many in the batch
  int max_rows = 4096;
  int tokens = 64;
};

ModelConfig flash(int layers) {
  ModelConfig c;
  c.name = "synthetic flash";
  c.n_layers = layers;
  c.hidden = 4096;
  c.vocab = 129280;
  c.context_length = 1 << 20;
  c.n_heads = 64;
  c.head_dim = 512;
  c.rope_dim = 64;
  c.q_lora_rank = 1024;
  c.o_lora_rank = 1024;
  c.o_groups = 8;
  c.window = 128;
  for (int i = 0; i < layers; ++i) {
    c.compress_ratios.push_back(i < 2 ? 0 : i % 2 == 0 ? 4 : 128);
  }
  c.index_heads = 64;
  c.index_dim = 128;
  c.index_topk = 512;
  c.yarn = {.factor = 16.0F, .original_context = 65536};
  c.n_experts = 256;
  c.n_experts_used = 6;
  c.expert_ffn = 2048;
  c.n_hash_layers = 3;
  c.routed_scale = 1.5F;
  c.swiglu_limit.assign(static_cast<size_t>(layers), 10.0F);
  c.shared_swiglu_limit.assign(static_cast<size_t>(layers), 10.0F);
  return c;
}

// Weights without bytes: the backend fills them.
class Synthetic {
 public:
  Weight make(std::string name, DType type, int out, int in, int count = 1) {
    const std::string& kept = names_.emplace_back(std::move(name));
    const std::vector<WeightSlice>& slices = slices_.emplace_back(static_cast<size_t>(count));
    bytes_ += static_cast<double>(count) * out * static_cast<double>(dtype_row_bytes(type, in));
    return {.name = kept, .dtype = type, .out_dim = out, .in_dim = in, .slices = slices};
  }
  [[nodiscard]] double bytes() const { return bytes_; }

 private:
  std::deque<std::string> names_;
  std::deque<std::vector<WeightSlice>> slices_;
  double bytes_ = 0.0;
};

CompressorWeights compressor(Synthetic& s, const std::string& name, const Settings& t, int ratio, int width, int d) {
  const int out = compressor_roles(ratio) * width;
  return {s.make(name + "kv", t.narrow, out, d), s.make(name + "gate", t.narrow, out, d),
          s.make(name + "ape", DType::kF32, ratio, out), s.make(name + "norm", DType::kF32, 1, width)};
}

HcWeights hc(Synthetic& s, const std::string& name, const ModelConfig& c, int rows, int scales) {
  return {s.make(name + "fn", DType::kF32, rows, c.hc * c.hidden), s.make(name + "base", DType::kF32, 1, rows),
          s.make(name + "scale", DType::kF32, 1, scales)};
}

Layer make_layer(Synthetic& s, const ModelConfig& c, const Settings& t, int i) {
  const std::string p = fmt::format("blk.{}.", i);
  Layer l;
  l.hc_attn = hc(s, p + "hc_attn_", c, c.hc_mix(), 3);
  l.hc_ffn = hc(s, p + "hc_ffn_", c, c.hc_mix(), 3);
  AttentionWeights& a = l.attn;
  const int heads_width = c.n_heads * c.head_dim;
  a.norm = s.make(p + "attn_norm", DType::kF32, 1, c.hidden);
  a.q_a = s.make(p + "attn_q_a", t.rest, c.q_lora_rank, c.hidden);
  a.q_a_norm = s.make(p + "attn_q_a_norm", DType::kF32, 1, c.q_lora_rank);
  a.q_b = s.make(p + "attn_q_b", t.rest, heads_width, c.q_lora_rank);
  a.kv = s.make(p + "attn_kv", t.rest, c.head_dim, c.hidden);
  a.kv_norm = s.make(p + "attn_kv_norm", DType::kF32, 1, c.head_dim);
  a.sinks = s.make(p + "attn_sinks", DType::kF32, 1, c.n_heads);
  a.out_a = s.make(p + "attn_out_a", t.rest, c.o_groups * c.o_lora_rank, heads_width / c.o_groups);
  a.out_b = s.make(p + "attn_out_b", t.rest, c.hidden, c.o_groups * c.o_lora_rank);
  if (c.ratio(i) > 0) {
    a.comp = compressor(s, p + "compressor_", t, c.ratio(i), c.head_dim, c.hidden);
  }
  if (c.ratio(i) == 4) {
    a.indexer = IndexerWeights{s.make(p + "indexer_q_b", t.narrow, c.index_heads * c.index_dim, c.q_lora_rank),
                               s.make(p + "indexer_proj", t.narrow, c.index_heads, c.hidden),
                               compressor(s, p + "indexer_compressor_", t, 4, c.index_dim, c.hidden)};
  }
  MoeWeights& m = l.moe;
  m.norm = s.make(p + "ffn_norm", DType::kF32, 1, c.hidden);
  m.router.gate = s.make(p + "router", DType::kF32, c.n_experts, c.hidden);
  if (i < c.n_hash_layers) {
    m.router.token_to_expert = s.make(p + "tid2eid", DType::kI32, c.vocab, c.n_experts_used);
  } else {
    m.router.bias = s.make(p + "router_bias", DType::kF32, 1, c.n_experts);
  }
  m.routed = {s.make(p + "experts_gate", t.gate_up, c.expert_ffn, c.hidden, c.n_experts),
              s.make(p + "experts_up", t.gate_up, c.expert_ffn, c.hidden, c.n_experts),
              s.make(p + "experts_down", t.down, c.hidden, c.expert_ffn, c.n_experts)};
  m.shared = {s.make(p + "shared_gate", t.rest, c.expert_ffn, c.hidden),
              s.make(p + "shared_up", t.rest, c.expert_ffn, c.hidden),
              s.make(p + "shared_down", t.rest, c.hidden, c.expert_ffn)};
  return l;
}

Model make_model(Synthetic& s, const Settings& t) {
  Model m;
  m.config = flash(t.layers);
  const ModelConfig& c = m.config;
  m.token_embd = s.make("token_embd", t.narrow, c.vocab, c.hidden);
  for (int i = 0; i < c.n_layers; ++i) {
    m.layers.push_back(make_layer(s, c, t, i));
  }
  m.hc_head = hc(s, "hc_head_", c, c.hc, 1);
  m.output_norm = s.make("output_norm", DType::kF32, 1, c.hidden);
  m.output = s.make("output", t.rest, c.vocab, c.hidden);
  return m;
}

double copy_bandwidth() {
  constexpr size_t kBytes = size_t{4} << 30;
  void* a = nullptr;
  void* b = nullptr;
  CUDA_CHECK(cudaMalloc(&a, kBytes));
  CUDA_CHECK(cudaMalloc(&b, kBytes));
  double best = 0.0;
  for (int i = 0; i < 6; ++i) {
    const auto start = Clock::now();
    CUDA_CHECK(cudaMemcpy(b, a, kBytes, cudaMemcpyDeviceToDevice));
    CUDA_CHECK(cudaDeviceSynchronize());
    best = std::max(best, 2.0 * static_cast<double>(kBytes) / seconds_since(start));
  }
  CUDA_CHECK(cudaFree(a));
  CUDA_CHECK(cudaFree(b));
  return best;
}

// Bytes of weights that one token reads.
double token_bytes(const Model& model) {
  double bytes = 0.0;
  const auto add = [&](const Weight& w, double share) {
    bytes +=
        share * static_cast<double>(w.count()) * w.out_dim * static_cast<double>(dtype_row_bytes(w.dtype, w.in_dim));
  };
  Model copy = model;
  for_each_weight(copy, [&](Weight& w, WeightRole role) {
    if (role == WeightRole::kExperts) {
      add(w, 6.0 / 256.0);
    } else if (role == WeightRole::kMatrix || role == WeightRole::kVector) {
      add(w, 1.0);
    }
  });
  return bytes;
}

class Runner {
 public:
  Runner(Ops& ops, const Model& model, const Scratch& scratch, int max_logits)
      : ops_(ops),
        model_(model),
        scratch_(scratch),
        logits_(static_cast<size_t>(max_logits) * static_cast<size_t>(model.config.vocab)) {}

  // One step of `rows` rows for each of `sequences` sequences at `position`; seconds.
  double step(int sequences, int rows, int position, bool with_logits = true) {
    const CacheLayout& layout = ops_.cache_layout();
    const int blocks = layout.blocks_for(position + rows);
    tokens_.resize(static_cast<size_t>(sequences * rows));
    for (TokenId& t : tokens_) {
      t = static_cast<TokenId>((random_ = random_ * 1664525U + 1013904223U) %
                               static_cast<unsigned>(model_.config.vocab));
    }
    std::vector<SequenceSlice> slices;
    std::vector<int32_t> logit_rows;
    tables_.assign(static_cast<size_t>(sequences), {});
    for (int i = 0; i < sequences; ++i) {
      auto& table = tables_[static_cast<size_t>(i)];
      for (int b = 0; b < blocks; ++b) {
        table.push_back(i * blocks + b);
      }
      slices.push_back({i, table, position, i * rows, rows});
      if (with_logits) {
        logit_rows.push_back(i * rows + rows - 1);
      }
    }
    const auto start = Clock::now();
    forward(ops_, model_, {tokens_, slices, logit_rows}, scratch_,
            {logits_.data(), static_cast<int>(logit_rows.size()), model_.config.vocab});
    const double elapsed = seconds_since(start);
    for (int i = 0; i < 16 && with_logits; ++i) {
      if (!(std::abs(logits_[static_cast<size_t>(i)]) < 1e6F)) {
        fmt::print("  logits are not finite\n");
        break;
      }
    }
    return elapsed;
  }

  // Median of many decoding steps.
  double decode(int sequences, int position, int tokens) {
    std::vector<double> times;
    for (int i = 0; i < tokens; ++i) {
      times.push_back(step(sequences, 1, position + i));
    }
    std::nth_element(times.begin(), times.begin() + tokens / 2, times.end());
    return times[static_cast<size_t>(tokens / 2)];
  }

  void prompt(int length, int chunk) {
    double total = 0.0;
    for (int at = 0; at < length; at += chunk) {
      total += step(1, std::min(chunk, length - at), at, at + chunk >= length);
    }
    fmt::print("{:<44} {:10.1f} tok/s\n", fmt::format("prefill {} in chunks of {}", length, chunk), length / total);
    std::fflush(stdout);
  }

 private:
  Ops& ops_;
  const Model& model_;
  const Scratch& scratch_;
  std::vector<float> logits_;
  std::vector<TokenId> tokens_;
  std::vector<std::vector<int32_t>> tables_;
  unsigned random_ = 1;
};

void run(const Settings& settings) {
  const double bandwidth = copy_bandwidth();
  fmt::print("{:<44} {:10.2f} TB/s\n", "copy, read + written", bandwidth / 1e12);
  Synthetic synthetic;
  Model model = make_model(synthetic, settings);
  const double per_token = token_bytes(model);
  auto start = Clock::now();
  const std::unique_ptr<Ops> ops = make_ops(
      model.config, {.kind = BackendKind::kCuda, .max_rows = settings.max_rows, .cache = {.kv_type = KvType::kPacked}});
  for_each_weight(model, [&](Weight& w, WeightRole role) { w = ops->upload(w, role); });
  const int max_logits = 64;
  const Scratch scratch = Scratch::make(*ops, model.config, settings.max_rows, max_logits);
  ops->reserve_cache(64, 64 * 10);
  fmt::print("{:<44} {:10.2f} GB in {:.1f} s\n", "weights", synthetic.bytes() / 1e9, seconds_since(start));
  const double floor = per_token / bandwidth;
  fmt::print("{:<44} {:10.2f} GB, floor {:.1f} tok/s\n", "bytes per token", per_token / 1e9, 1.0 / floor);

  Runner runner(*ops, model, scratch, max_logits);
  runner.step(1, 1, 0);
  if (settings.prefill) {
    runner.step(1, std::min(256, settings.max_rows), 0);
    runner.prompt(2048, std::min(2048, settings.max_rows));
    runner.prompt(4096, std::min(4096, settings.max_rows));
    runner.prompt(4096, std::min(2048, settings.max_rows));
    runner.prompt(4096, std::min(512, settings.max_rows));
  }
  const auto report = [&](const std::string& what, int sequences, double t) {
    fmt::print("{:<44} {:10.1f} tok/s  {:6.3f} ms  {:4.1f} % of the batch-1 floor\n", what, sequences / t, t * 1e3,
               100.0 * floor / t * sequences);
    std::fflush(stdout);
  };
  if (settings.decode) {
    runner.decode(1, 2040, 4);
    report("decode 1 sequence at 2K", 1, runner.decode(1, 2048, settings.tokens));
  }
  if (settings.deep) {
    runner.decode(1, 32768, 4);
    report("decode 1 sequence at 32K", 1, runner.decode(1, 32768, settings.tokens));
  }
  if (settings.batch) {
    for (const int sequences : {2, 4, 8, 16, 32, 64}) {
      if (settings.sequences > 0 && sequences != settings.sequences) {
        continue;
      }
      runner.decode(sequences, 2040, 4);
      report(fmt::format("decode {} sequences at 2K", sequences), sequences,
             runner.decode(sequences, 2048, std::min(settings.tokens, 16)));
    }
  }
}

Settings parse(int argc, char** argv) {
  Settings s;
  for (int i = 1; i < argc; ++i) {
    const std::string_view a = argv[i];
    const auto number = [&] { return std::atoi(argv[++i]); };
    if (a == "--layers") {
      s.layers = number();
    } else if (a == "--rows") {
      s.max_rows = number();
    } else if (a == "--tokens") {
      s.tokens = number();
    } else if (a == "--mxfp4") {
      s.gate_up = s.down = DType::kMXFP4;
    } else if (a == "--no-prefill") {
      s.prefill = false;
    } else if (a == "--no-decode") {
      s.decode = s.deep = false;
    } else if (a == "--no-deep") {
      s.deep = false;
    } else if (a == "--sequences") {
      s.sequences = number();
    } else if (a == "--no-batch") {
      s.batch = false;
    } else {
      throw std::runtime_error(fmt::format("unknown option {}", a));
    }
  }
  return s;
}

}  // namespace
}  // namespace fathom

int main(int argc, char** argv) {
  try {
    fathom::run(fathom::parse(argc, argv));
  } catch (const std::exception& e) {
    fmt::print(stderr, "{}\n", e.what());
    return 1;
  }
  return 0;
}
