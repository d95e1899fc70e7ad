// From canonical names to the model's fields: one line per tensor, name and expected shape side by side.
#include <fmt/format.h>

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/log.h"
#include "model/model.h"
#include "weights/names.h"
#include "weights/weight_source.h"

namespace fathom {
namespace {

// Takes the tensors of a model one by one, by name and expected shape.
class Binder {
 public:
  Binder() = default;
  virtual ~Binder() = default;
  Binder(const Binder&) = delete;
  Binder& operator=(const Binder&) = delete;

  Weight vector(std::string name, int n) { return take({.name = std::move(name), .in_dim = n}); }
  Weight matrix(std::string name, int out, int in) {
    return take({.name = std::move(name), .kind = TensorSpec::Kind::kMatrix, .out_dim = out, .in_dim = in});
  }
  Weight experts(std::string name, int count, int out, int in) {
    return take(
        {.name = std::move(name), .kind = TensorSpec::Kind::kExperts, .count = count, .out_dim = out, .in_dim = in});
  }
  // A table of integers; every other tensor is of floats or codes for floats.
  Weight id_table(std::string name, int rows, int n) {
    return take({.name = std::move(name),
                 .kind = TensorSpec::Kind::kIdTable,
                 .out_dim = rows,
                 .in_dim = n,
                 .dtype = DType::kI32});
  }

 private:
  virtual Weight take(TensorSpec spec) = 0;
};

// Finds them in a source and checks them.
class SourceBinder final : public Binder {
 public:
  explicit SourceBinder(const WeightSource& source) : source_(source) {}

  // Throws for a tensor that nothing took. Tensors of other modules (multi-token prediction and the like) are let be.
  void check_leftovers(int n_layers) const {
    size_t others = 0;
    for (const Weight& w : source_.tensors()) {
      if (taken_.contains(w.name)) {
        continue;
      }
      if (!is_side_tensor(w.name, n_layers)) {
        throw Error(ErrorCode::kBadModel, fmt::format("{}: unexpected tensor {} {}", source_.path(), w.name,
                                                      shape(w.out_dim, w.in_dim, w.count())));
      }
      ++others;
    }
    if (others > 0) {
      log_warn(fmt::format("{}: {} tensors of modules that are not used (multi-token prediction and the like)",
                           source_.path(), others));
    }
  }

 private:
  static bool is_integer(DType t) { return t == DType::kI32 || t == DType::kI64; }

  static std::string shape(int out, int in, int count) {
    if (count > 1) {
      return fmt::format("[{}, {}, {}]", count, out, in);
    }
    return out > 1 ? fmt::format("[{}, {}]", out, in) : fmt::format("[{}]", in);
  }

  Weight take(TensorSpec spec) override {
    const Weight* w = source_.find(spec.name);
    if (w == nullptr) {
      throw Error(ErrorCode::kBadModel, fmt::format("{}: missing tensor {}", source_.path(), spec.name));
    }
    taken_.insert(w->name);
    if (w->out_dim != spec.out_dim || w->in_dim != spec.in_dim || w->count() != spec.count) {
      throw Error(ErrorCode::kBadModel,
                  fmt::format("{}: shape {}, expected {}", spec.name, shape(w->out_dim, w->in_dim, w->count()),
                              shape(spec.out_dim, spec.in_dim, spec.count)));
    }
    const bool wants_integers = spec.kind == TensorSpec::Kind::kIdTable;
    if (is_integer(w->dtype) != wants_integers) {
      throw Error(ErrorCode::kBadModel, fmt::format("{}: type {}, expected {}", spec.name, dtype_info(w->dtype).name,
                                                    wants_integers ? "I32 or I64" : "a float or block type"));
    }
    return *w;
  }

  const WeightSource& source_;
  std::set<std::string_view> taken_;
};

// Only notes what is asked for.
class ListBinder final : public Binder {
 public:
  std::vector<TensorSpec> specs;

 private:
  Weight take(TensorSpec spec) override {
    specs.push_back(std::move(spec));
    return {};
  }
};

HcWeights bind_hc(Binder& b, const std::string& prefix, const ModelConfig& c) {
  return {.fn = b.matrix(prefix + "_fn.weight", c.hc_mix(), c.hc * c.hidden),
          .base = b.vector(prefix + "_base.weight", c.hc_mix()),
          .scale = b.vector(prefix + "_scale.weight", 3)};
}

CompressorWeights bind_compressor(Binder& b, const std::string& prefix, int ratio, int width, int hidden) {
  const int channels = compressor_roles(ratio) * width;
  return {.kv = b.matrix(prefix + "_kv.weight", channels, hidden),
          .gate = b.matrix(prefix + "_gate.weight", channels, hidden),
          .ape = b.matrix(prefix + "_ape.weight", ratio, channels),
          .norm = b.vector(prefix + "_norm.weight", width)};
}

AttentionWeights bind_attention(Binder& b, const std::string& blk, int ratio, const ModelConfig& c) {
  const int heads_width = c.n_heads * c.head_dim;
  const int low = c.o_groups * c.o_lora_rank;
  AttentionWeights a;
  a.norm = b.vector(blk + "attn_norm.weight", c.hidden);
  a.q_a = b.matrix(blk + "attn_q_a.weight", c.q_lora_rank, c.hidden);
  a.q_a_norm = b.vector(blk + "attn_q_a_norm.weight", c.q_lora_rank);
  a.q_b = b.matrix(blk + "attn_q_b.weight", heads_width, c.q_lora_rank);
  a.kv = b.matrix(blk + "attn_kv.weight", c.head_dim, c.hidden);
  a.kv_norm = b.vector(blk + "attn_kv_a_norm.weight", c.head_dim);
  a.sinks = b.vector(blk + "attn_sinks.weight", c.n_heads);
  a.out_a = b.matrix(blk + "attn_output_a.weight", low, heads_width / c.o_groups);
  a.out_b = b.matrix(blk + "attn_output_b.weight", c.hidden, low);
  if (ratio > 0) {
    a.comp = bind_compressor(b, blk + "attn_compressor", ratio, c.head_dim, c.hidden);
  }
  if (ratio == 4) {
    a.indexer =
        IndexerWeights{.q_b = b.matrix(blk + "indexer.attn_q_b.weight", c.index_heads * c.index_dim, c.q_lora_rank),
                       .proj = b.matrix(blk + "indexer.proj.weight", c.index_heads, c.hidden),
                       .comp = bind_compressor(b, blk + "indexer_compressor", ratio, c.index_dim, c.hidden)};
  }
  return a;
}

MoeWeights bind_moe(Binder& b, const std::string& blk, bool by_token_id, const ModelConfig& c) {
  MoeWeights m;
  m.norm = b.vector(blk + "ffn_norm.weight", c.hidden);
  m.router.gate = b.matrix(blk + "ffn_gate_inp.weight", c.n_experts, c.hidden);
  if (by_token_id) {
    m.router.token_to_expert = b.id_table(blk + "ffn_gate_tid2eid.weight", c.vocab, c.n_experts_used);
  } else {
    m.router.bias = b.vector(blk + "exp_probs_b.bias", c.n_experts);
  }
  m.routed = {.gate = b.experts(blk + "ffn_gate_exps.weight", c.n_experts, c.expert_ffn, c.hidden),
              .up = b.experts(blk + "ffn_up_exps.weight", c.n_experts, c.expert_ffn, c.hidden),
              .down = b.experts(blk + "ffn_down_exps.weight", c.n_experts, c.hidden, c.expert_ffn)};
  m.shared = {.gate = b.matrix(blk + "ffn_gate_shexp.weight", c.shared_ffn(), c.hidden),
              .up = b.matrix(blk + "ffn_up_shexp.weight", c.shared_ffn(), c.hidden),
              .down = b.matrix(blk + "ffn_down_shexp.weight", c.hidden, c.shared_ffn())};
  return m;
}

Model bind_model(Binder& b, const ModelConfig& config) {
  Model model;
  model.config = config;
  model.token_embd = b.matrix("token_embd.weight", config.vocab, config.hidden);
  for (int i = 0; i < config.n_layers; ++i) {
    const std::string blk = fmt::format("blk.{}.", i);
    Layer& layer = model.layers.emplace_back();
    layer.hc_attn = bind_hc(b, blk + "hc_attn", config);
    layer.attn = bind_attention(b, blk, config.ratio(i), config);
    layer.hc_ffn = bind_hc(b, blk + "hc_ffn", config);
    layer.moe = bind_moe(b, blk, i < config.n_hash_layers, config);
  }
  model.hc_head = {.fn = b.matrix("output_hc_fn.weight", config.hc, config.hc * config.hidden),
                   .base = b.vector("output_hc_base.weight", config.hc),
                   .scale = b.vector("output_hc_scale.weight", 1)};
  model.output_norm = b.vector("output_norm.weight", config.hidden);
  model.output = b.matrix("output.weight", config.vocab, config.hidden);
  return model;
}

}  // namespace

Model bind_weights(const WeightSource& source, const ModelConfig& config) {
  SourceBinder binder(source);
  Model model = bind_model(binder, config);
  binder.check_leftovers(config.n_layers);
  return model;
}

std::vector<TensorSpec> list_tensors(const ModelConfig& config) {
  ListBinder binder;
  static_cast<void>(bind_model(binder, config));
  return std::move(binder.specs);
}

namespace {

using Visit = std::function<void(Weight&, WeightRole)>;

void visit_hc(HcWeights& w, const Visit& visit) {
  visit(w.fn, WeightRole::kMixer);
  visit(w.base, WeightRole::kVector);
  visit(w.scale, WeightRole::kVector);
}

void visit_compressor(CompressorWeights& w, const Visit& visit) {
  visit(w.kv, WeightRole::kMatrix);
  visit(w.gate, WeightRole::kMatrix);
  visit(w.ape, WeightRole::kVector);
  visit(w.norm, WeightRole::kVector);
}

void visit_attention(AttentionWeights& w, const Visit& visit) {
  visit(w.norm, WeightRole::kVector);
  visit(w.q_a, WeightRole::kMatrix);
  visit(w.q_a_norm, WeightRole::kVector);
  visit(w.q_b, WeightRole::kMatrix);
  visit(w.kv, WeightRole::kMatrix);
  visit(w.kv_norm, WeightRole::kVector);
  visit(w.sinks, WeightRole::kVector);
  visit(w.out_a, WeightRole::kMatrix);
  visit(w.out_b, WeightRole::kMatrix);
  if (w.comp) {
    visit_compressor(*w.comp, visit);
  }
  if (w.indexer) {
    visit(w.indexer->q_b, WeightRole::kMatrix);
    visit(w.indexer->proj, WeightRole::kMatrix);
    visit_compressor(w.indexer->comp, visit);
  }
}

void visit_experts(ExpertWeights& w, WeightRole role, const Visit& visit) {
  visit(w.gate, role);
  visit(w.up, role);
  visit(w.down, role);
}

void visit_moe(MoeWeights& w, const Visit& visit) {
  visit(w.norm, WeightRole::kVector);
  visit(w.router.gate, WeightRole::kMixer);
  if (w.router.bias) {
    visit(*w.router.bias, WeightRole::kVector);
  }
  if (w.router.token_to_expert) {
    visit(*w.router.token_to_expert, WeightRole::kIdTable);
  }
  visit_experts(w.routed, WeightRole::kExperts, visit);
  visit_experts(w.shared, WeightRole::kMatrix, visit);
}

}  // namespace

void for_each_weight(Model& model, const Visit& visit) {
  visit(model.token_embd, WeightRole::kEmbedding);
  for (Layer& layer : model.layers) {
    visit_hc(layer.hc_attn, visit);
    visit_attention(layer.attn, visit);
    visit_hc(layer.hc_ffn, visit);
    visit_moe(layer.moe, visit);
  }
  visit_hc(model.hc_head, visit);
  visit(model.output_norm, WeightRole::kVector);
  visit(model.output, WeightRole::kMatrix);
}

void upload_weights(Model& model, Ops& ops, const WeightSource& source) {
  for_each_weight(model, [&](Weight& w, WeightRole role) {
    const Weight uploaded = ops.upload(w, role);
    if (uploaded.prepared != nullptr) {
      source.release(w);
    }
    w = uploaded;
  });
}

}  // namespace fathom
