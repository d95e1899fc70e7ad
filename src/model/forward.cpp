#include "model/forward.h"

#include <algorithm>
#include <array>

namespace fathom {
namespace {

// The views of one step: scratch cut to the rows in use.
Scratch cut(const Scratch& s, int rows, int logit_rows) {
  Scratch c = s;
  for (DeviceMat<float>* m :
       {&c.streams, &c.mix.post, &c.mix.comb, &c.x, &c.y, &c.q_low, &c.q_low_n, &c.q, &c.kv, &c.comp_kv, &c.comp_gate,
        &c.index_kv, &c.index_gate, &c.index_q, &c.index_weights, &c.context, &c.low, &c.experts.weights}) {
    *m = m->slice_rows(0, rows);
  }
  c.selected = c.selected.slice_rows(0, rows);
  c.experts.ids = c.experts.ids.slice_rows(0, rows);
  c.logits = c.logits.slice_rows(0, logit_rows);
  return c;
}

// The three kinds of layer differ only in which rows a query may see besides its window:
//   ratio 0     none
//   ratio 128   every entry that pools 128 tokens
//   ratio 4     the best index_topk of the entries that pool 4 tokens (overlapping), chosen by the indexer
void attention(Ops& ops, int layer, const AttentionWeights& w, const Scratch& s) {
  const DeviceMat<float> comp_kv = w.comp ? s.comp_kv.slice_cols(0, w.comp->kv.out_dim) : DeviceMat<float>{};
  const DeviceMat<float> comp_gate = w.comp ? s.comp_gate.slice_cols(0, w.comp->kv.out_dim) : DeviceMat<float>{};

  std::array<Product, 7> from_x{{{&w.q_a, s.q_low}, {&w.kv, s.kv}}};
  size_t n = 2;
  if (w.comp) {
    from_x[n++] = {&w.comp->kv, comp_kv};
    from_x[n++] = {&w.comp->gate, comp_gate};
  }
  if (w.indexer) {
    from_x[n++] = {&w.indexer->comp.kv, s.index_kv};
    from_x[n++] = {&w.indexer->comp.gate, s.index_gate};
    from_x[n++] = {&w.indexer->proj, s.index_weights};
  }
  ops.matmul(std::span(from_x).first(n), s.x);

  ops.rms_norm(w.q_a_norm, s.q_low, s.q_low_n);
  std::array<Product, 2> from_q{{{&w.q_b, s.q}}};
  if (w.indexer) {
    from_q[1] = {&w.indexer->q_b, s.index_q};
  }
  ops.matmul(std::span(from_q).first(w.indexer ? 2 : 1), s.q_low_n);
  ops.norm_rope(layer, w.kv_norm, s.q, s.kv);

  // Entries completed in this step are visible to its own queries, so all compression precedes attention.
  if (w.indexer) {
    ops.compress_index(layer, w.indexer->comp, s.index_kv, s.index_gate);
    ops.select_entries(layer, s.index_q, s.index_weights, s.selected);
  }
  if (w.comp) {
    ops.compress(layer, *w.comp, comp_kv, comp_gate);
  }

  ops.attend(layer, w.sinks, s.q, s.kv, w.indexer ? s.selected : DeviceMat<int32_t>{}, s.context);
  ops.matmul_grouped(w.out_a, s.context, s.low);
  const Product out{&w.out_b, s.y};
  ops.matmul({&out, 1}, s.low);
}

void moe(Ops& ops, int layer, const MoeWeights& w, const Scratch& s) {
  ops.route(layer, w.router, s.x, s.experts);
  ops.experts(layer, w.routed, w.shared, s.experts, s.x, s.y);
}

}  // namespace

Scratch Scratch::make(Ops& ops, const ModelConfig& c, int max_rows, int max_logits) {
  const int heads_width = c.n_heads * c.head_dim;
  Scratch s;
  s.streams = ops.make_f32(max_rows, c.hc * c.hidden);
  s.mix = {ops.make_f32(max_rows, c.hc), ops.make_f32(max_rows, c.hc * c.hc)};
  s.x = ops.make_f32(max_rows, c.hidden);
  s.y = ops.make_f32(max_rows, c.hidden);
  s.q_low = ops.make_f32(max_rows, c.q_lora_rank);
  s.q_low_n = ops.make_f32(max_rows, c.q_lora_rank);
  s.q = ops.make_f32(max_rows, heads_width);
  s.kv = ops.make_f32(max_rows, c.head_dim);
  s.comp_kv = ops.make_f32(max_rows, compressor_roles(4) * c.head_dim);
  s.comp_gate = ops.make_f32(max_rows, compressor_roles(4) * c.head_dim);
  s.index_kv = ops.make_f32(max_rows, compressor_roles(4) * c.index_dim);
  s.index_gate = ops.make_f32(max_rows, compressor_roles(4) * c.index_dim);
  s.index_q = ops.make_f32(max_rows, c.index_heads * c.index_dim);
  s.index_weights = ops.make_f32(max_rows, c.index_heads);
  s.selected = ops.make_i32(max_rows, c.index_topk);
  s.context = ops.make_f32(max_rows, heads_width);
  s.low = ops.make_f32(max_rows, c.o_groups * c.o_lora_rank);
  s.experts = {ops.make_i32(max_rows, c.n_experts_used), ops.make_f32(max_rows, c.n_experts_used)};
  s.logits = ops.make_f32(max_logits, c.vocab);
  return s;
}

void forward(Ops& ops, const Model& model, const StepBatch& batch, const Scratch& scratch, HostMat<float> logits) {
  const Scratch s = cut(scratch, batch.rows(), batch.n_logits());

  ops.begin_step(batch);
  ops.embed(model.token_embd, s.streams);
  for (int i = 0; const Layer& layer : model.layers) {
    ops.hc_enter(layer.hc_attn, layer.attn.norm, s.streams, s.mix, s.x);
    attention(ops, i, layer.attn, s);
    ops.hc_exit(s.y, s.mix, s.streams);

    ops.hc_enter(layer.hc_ffn, layer.moe.norm, s.streams, s.mix, s.x);
    moe(ops, i, layer.moe, s);
    ops.hc_exit(s.y, s.mix, s.streams);
    ++i;
  }
  const DeviceMat<float> head_in = s.x.slice_rows(0, batch.n_logits());
  ops.hc_collapse(model.hc_head, model.output_norm, s.streams, head_in);
  const Product head{&model.output, s.logits};
  ops.matmul({&head, 1}, head_in);
  ops.end_step(s.logits, logits);
}

}  // namespace fathom
