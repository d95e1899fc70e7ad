// The steps of the model, each turned into launches.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "backend/cuda/cuda_ops.h"
#include "backend/cuda/kernels/attend_tensor.h"
#include "core/check.h"
#include "core/error.h"

namespace fathom::cuda {
namespace {

const DeviceWeight& planes(const Weight& w) { return *static_cast<const DeviceWeight*>(w.prepared); }
const float* vector(const Weight& w) { return reinterpret_cast<const float*>(planes(w).codes); }

template <class T>
View<T> view(DeviceMat<T> m) {
  return {m.device_ptr(), m.ld()};
}

uint64_t identity(int v) { return static_cast<uint64_t>(v); }
uint64_t identity(const Weight& w) { return reinterpret_cast<uint64_t>(w.prepared); }
template <class T>
uint64_t identity(DeviceMat<T> m) {
  return reinterpret_cast<uint64_t>(m.device_ptr()) ^ static_cast<uint64_t>(m.rows()) << 52 ^
         static_cast<uint64_t>(m.cols()) << 40;
}

}  // namespace

template <class... Args>
bool CudaOps::enter(int op, const Args&... args) {
  const auto mix = [this](uint64_t v) { calls_ = (calls_ ^ v) * 0x9E3779B97F4A7C15ULL ^ calls_ >> 29; };
  mix(static_cast<uint64_t>(op));
  (mix(identity(args)), ...);
  return mode_ != StepMode::kReplay;
}

bool CudaOps::few_rows(int rows) const {
  // Beyond, tensor cores win although their blocks wait for memory most of the time.
  return rows <= StepStaging::kFewRows;
}

void CudaOps::overwrite(const float* data) {
  for (Narrow* n : {&int8_, &bf16_}) {
    if (n->source == data) {
      n->source = nullptr;
    }
  }
}

QuantRows CudaOps::quant_rows(const Narrow& narrow, int rows, int cols) const {
  auto* codes = narrow.memory.as<int8_t>();
  const size_t bytes = (static_cast<size_t>(rows) * static_cast<size_t>(cols) + 255) / 256 * 256;
  return {codes, codes + bytes, reinterpret_cast<float*>(codes + 2 * bytes), cols};
}

QuantRows CudaOps::quantized(DeviceMat<const float> x) {
  const QuantRows q = quant_rows(int8_, x.rows(), x.cols());
  if (int8_.source != x.device_ptr() || int8_.rows != x.rows() || int8_.cols != x.cols()) {
    quantize_rows(launch_, x.rows(), view(x), q);
    int8_.source = x.device_ptr();
    int8_.rows = x.rows();
    int8_.cols = x.cols();
  }
  return q;
}

QuantRows CudaOps::offer_quantized(DeviceMat<const float> x) {
  if (!few_rows(x.rows()) || x.cols() % 32 != 0) {
    return {};
  }
  int8_.source = x.device_ptr();
  int8_.rows = x.rows();
  int8_.cols = x.cols();
  return quant_rows(int8_, x.rows(), x.cols());
}

const uint16_t* CudaOps::narrowed(DeviceMat<const float> x) {
  auto* out = bf16_.memory.as<uint16_t>();
  if (bf16_.source != x.device_ptr() || bf16_.rows != x.rows() || bf16_.cols != x.cols()) {
    to_bf16_rows(launch_, x.rows(), x.cols(), view(x), out);
    bf16_.source = x.device_ptr();
    bf16_.rows = x.rows();
    bf16_.cols = x.cols();
  }
  return out;
}

void CudaOps::prepare() {
  if (!prepared_) {
    prepare_rows(launch_, to_prepare_, rows_);
    to_prepare_ = {};
    prepared_ = true;
  }
}

void CudaOps::flush() {
  prepare();
  finish_route();
  if (!pending_) {
    return;
  }
  const std::unique_ptr<PendingExit> exit = std::move(pending_);
  hc_exit_rows(launch_, {.rows = exit->y.rows(),
                         .hc = config_.hc,
                         .hidden = config_.hidden,
                         .streams = view(exit->streams),
                         .exit_y = view(exit->y),
                         .exit_post = view(DeviceMat<const float>(exit->mix.post)),
                         .exit_comb = view(DeviceMat<const float>(exit->mix.comb))});
}

void CudaOps::embed(const Weight& table, DeviceMat<float> streams) {
  if (!enter(__LINE__, table, streams)) {
    return;
  }
  pending_.reset();
  embed_rows(launch_, streams.rows(), config_.hc, staging_.view(), planes(table), view(streams));
}

HcParams CudaOps::hc_params(const HcWeights& hc, const Weight& norm, DeviceMat<const float> streams,
                            DeviceMat<float> x) {
  const DeviceWeight& fn = planes(hc.fn);
  if (fn.format != Format::kF32 && fn.format != Format::kF16 && fn.format != Format::kBF16) {
    throw Error(ErrorCode::kUnsupported, fmt::format("{}: type {}, the cuda backend takes F32, F16 or BF16 here",
                                                     hc.fn.name, dtype_info(hc.fn.dtype).name));
  }
  overwrite(x.device_ptr());
  return {.rows = x.rows(),
          .hc = config_.hc,
          .hidden = config_.hidden,
          .iterations = config_.sinkhorn_iterations,
          .hc_eps = config_.hc_eps,
          .rms_eps = config_.rms_eps,
          .fn = fn,
          .base = vector(hc.base),
          .scale = vector(hc.scale),
          .norm = vector(norm),
          .streams = {const_cast<float*>(streams.device_ptr()), streams.ld()},
          .x = view(x),
          .q = offer_quantized(x),
          .partials = hc_partials_.as<float>()};
}

void CudaOps::hc_enter(const HcWeights& hc, const Weight& norm, DeviceMat<const float> streams, HcMix mix,
                       DeviceMat<float> x) {
  if (!enter(__LINE__, hc.fn, hc.base, hc.scale, norm, streams, mix.post, mix.comb, x)) {
    return;
  }
  if (pending_ && pending_->streams.device_ptr() != streams.device_ptr()) {
    flush();
  }
  HcParams p = hc_params(hc, norm, streams, x);
  p.post = view(mix.post);
  p.comb = view(mix.comb);
  if (pending_) {
    p.exit_y = view(pending_->y);
    p.exit_post = view(DeviceMat<const float>(pending_->mix.post));
    p.exit_comb = view(DeviceMat<const float>(pending_->mix.comb));
    pending_.reset();
  }
  hc_enter_rows(launch_, p);
}

void CudaOps::hc_exit(DeviceMat<const float> y, const HcMix& mix, DeviceMat<float> streams) {
  if (!enter(__LINE__, y, mix.post, mix.comb, streams)) {
    return;
  }
  flush();
  pending_ = std::make_unique<PendingExit>(PendingExit{y, mix, streams});
}

void CudaOps::hc_collapse(const HcWeights& hc, const Weight& norm, DeviceMat<const float> streams, DeviceMat<float> x) {
  if (!enter(__LINE__, hc.fn, hc.base, hc.scale, norm, streams, x)) {
    return;
  }
  flush();
  if (x.rows() == 0) {
    return;
  }
  HcParams p = hc_params(hc, norm, streams, x);
  p.row_map = staging_.view().logit_rows;
  p.head = true;
  hc_enter_rows(launch_, p);
}

void CudaOps::multiply(std::span<const ProductTask> tasks, DeviceMat<const float> x) {
  if (x.rows() == 0) {
    return;
  }
  enum class Way : uint8_t { kFewRows, kTensorCores, kFloat32 };
  const auto way_of = [&](const ProductTask& task) {
    if (few_rows(x.rows())) {
      return Way::kFewRows;
    }
    if (can_multiply_many_rows(task.w, task.group_rows)) {
      return Way::kTensorCores;
    }
    return can_multiply_many_f32_rows(task, view(x)) ? Way::kFloat32 : Way::kFewRows;
  };
  // Everything of the same format in one launch.
  std::array<ProductList, 16> lists;
  size_t n = 0;
  for (const ProductTask& task : tasks) {
    size_t i = 0;
    while (i < n && !(lists[i].tasks[0].w.format == task.w.format && way_of(lists[i].tasks[0]) == way_of(task) &&
                      lists[i].n < kMaxProducts && task.group_rows == 0)) {
      ++i;
    }
    n = std::max(n, i + 1);
    lists[i].tasks[lists[i].n++] = task;
  }
  if (n == 2 && has_integer_codes(lists[1].tasks[0].w.format)) {
    std::swap(lists[0], lists[1]);
  }
  if (n == 2 && can_multiply_mixed(lists[0].tasks[0].w.format, lists[1].tasks[0].w.format, x.rows())) {
    multiply_mixed(launch_, lists[0], lists[1], view(x), quantized(x));
    return;
  }
  for (size_t i = 0; i < n; ++i) {
    const ProductTask& first = lists[i].tasks[0];
    switch (way_of(first)) {
      case Way::kTensorCores:
        if (first.group_rows > 0) {
          gemm(launch_, {.w = first.w,
                         .x = narrowed(x),
                         .ldx = x.cols(),
                         .rows = x.rows(),
                         .group_rows = first.group_rows,
                         .y = first.y});
        } else {
          gemm_list(launch_, {.list = lists[i], .x = narrowed(x), .ldx = x.cols(), .rows = x.rows()});
        }
        break;
      case Way::kFloat32:
        for (int k = 0; k < lists[i].n; ++k) {
          multiply_many_f32_rows(launch_, lists[i].tasks[k], x.rows(), view(x));
        }
        break;
      case Way::kFewRows:
        if (std::all_of(lists[i].tasks, lists[i].tasks + lists[i].n,
                        [&](const ProductTask& t) { return can_multiply_rows_as_int8(t, x.rows()); })) {
          multiply_rows_as_int8(launch_, lists[i], x.rows(), quantized(x));
          break;
        }
        multiply_few_rows(launch_, first.w.format, lists[i], x.rows(), view(x),
                          has_integer_codes(first.w.format) ? quantized(x) : QuantRows{});
        break;
    }
  }
}

void CudaOps::matmul(std::span<const Product> products, DeviceMat<const float> x) {
  for (const Product& product : products) {
    if (!enter(__LINE__, *product.weight, x, product.y)) {
      continue;
    }
  }
  if (mode_ == StepMode::kReplay) {
    return;
  }
  std::array<ProductTask, 16> tasks;
  FATHOM_CHECK(products.size() <= tasks.size(), "too many products in one call");
  for (size_t i = 0; i < products.size(); ++i) {
    tasks[i] = {.w = planes(*products[i].weight), .y = view(products[i].y)};
    overwrite(products[i].y.device_ptr());
  }
  multiply(std::span(tasks).first(products.size()), x);
}

void CudaOps::matmul_grouped(const Weight& w, DeviceMat<const float> context, DeviceMat<float> low) {
  if (!enter(__LINE__, w, context, low)) {
    return;
  }
  overwrite(low.device_ptr());
  ProductTask task{.w = planes(w), .y = view(low), .group_rows = config_.o_lora_rank};
  if (config_.o_lora_rank % 32 == 0 && can_quantize_product(task.w, context.rows(), launch_.multiprocessors)) {
    task.q = quant_rows(low_int8_, 1, low.cols());
    multiply({&task, 1}, context);
    std::swap(int8_, low_int8_);  // the int8 form of the input is not needed any more
    int8_.source = low.device_ptr();
    int8_.rows = 1;
    int8_.cols = low.cols();
    return;
  }
  multiply({&task, 1}, context);
}

void CudaOps::rms_norm(const Weight& gain, DeviceMat<const float> x, DeviceMat<float> y) {
  if (!enter(__LINE__, gain, x, y)) {
    return;
  }
  overwrite(y.device_ptr());
  rms_norm_rows(launch_, x.rows(), x.cols(), config_.rms_eps, vector(gain), view(x), view(y), offer_quantized(y));
}

CacheParams CudaOps::cache_params(int layer) const {
  const LayerCache& cache = layout_.layers[static_cast<size_t>(layer)];
  const StepView& step = staging_.view();
  return {.rows = rows_,
          .simulated = layout_.options.activation_sim,
          .step = step,
          .rotations = config_.ratio(layer) > 0 ? step.compressed_rotations : step.plain_rotations,
          .ring = cache_.ring(layer),
          .entries = cache_.entries(layer),
          .index = cache_.index(layer),
          .ring_rows = layout_.ring_rows,
          .window = config_.window,
          .ratio = cache.ratio,
          .rows_per_block = cache.rows_per_block};
}

int CudaOps::max_visible(int ratio) const { return visible_entries(positions_ - 1, ratio); }

void CudaOps::norm_rope(int layer, const Weight& kv_norm, DeviceMat<float> q, DeviceMat<float> kv) {
  if (!enter(__LINE__, layer, kv_norm, q, kv)) {
    return;
  }
  overwrite(q.device_ptr());
  overwrite(kv.device_ptr());
  prepare();
  to_prepare_.has_heads = true;
  to_prepare_.heads = {.cache = cache_params(layer),
                       .heads = config_.n_heads,
                       .eps = config_.rms_eps,
                       .kv_norm = vector(kv_norm),
                       .q = view(q),
                       .kv = view(kv),
                       .store_ring = short_runs_};
  prepared_ = false;
}

CompressParams CudaOps::compress_params(int layer, const CompressorState& state, const CompressorWeights& w,
                                        DeviceMat<const float> kv, DeviceMat<const float> gate) const {
  return {.cache = cache_params(layer),
          .state = {.offset = state.offset, .capacity = state.capacity},
          .short_runs = short_runs_,
          .width = state.width,
          .roles = state.roles,
          .rope = config_.rope_dim,
          .eps = config_.rms_eps,
          .frequencies = frequencies_.as<float>() + config_.rope_dim / 2,
          .ape = vector(w.ape),
          .norm = vector(w.norm),
          .kv = view(kv),
          .gate = view(gate)};
}

void CudaOps::compress(int layer, const CompressorWeights& w, DeviceMat<const float> kv, DeviceMat<const float> gate) {
  if (!enter(__LINE__, layer, w.ape, w.norm, kv, gate)) {
    return;
  }
  if (to_prepare_.has_entries) {
    prepare();
  }
  to_prepare_.has_entries = true;
  to_prepare_.entries = compress_params(layer, layout_.layers[static_cast<size_t>(layer)].state, w, kv, gate);
  prepared_ = false;
}

void CudaOps::compress_index(int layer, const CompressorWeights& w, DeviceMat<const float> kv,
                             DeviceMat<const float> gate) {
  if (!enter(__LINE__, layer, w.ape, w.norm, kv, gate)) {
    return;
  }
  CompressParams p = compress_params(layer, layout_.layers[static_cast<size_t>(layer)].index_state, w, kv, gate);
  p.index = true;
  if (to_prepare_.has_index) {
    prepare();
  }
  to_prepare_.has_index = true;
  to_prepare_.index = p;
  prepared_ = false;
}

void CudaOps::select_entries(int layer, DeviceMat<float> q, DeviceMat<const float> weights,
                             DeviceMat<int32_t> selected) {
  if (!enter(__LINE__, layer, q, weights, selected)) {
    return;
  }
  overwrite(q.device_ptr());
  const int visible = max_visible(4);
  const int score_rows = static_cast<int>(
      std::min<size_t>(score_count_ / static_cast<size_t>(std::max(visible, 1)), static_cast<size_t>(rows_)));
  const SelectParams p{.cache = cache_params(layer),
                       .heads = config_.index_heads,
                       .dim = config_.index_dim,
                       .rope = config_.rope_dim,
                       .topk = config_.index_topk,
                       .max_visible = visible,
                       .q = view(q),
                       .weights = view(weights),
                       .selected = view(selected),
                       .scores = scores_.as<float>(),
                       .score_rows = score_rows};
  if (to_prepare_.has_select) {
    prepare();
  }
  to_prepare_.has_select = true;
  to_prepare_.selects_all = visible <= p.topk;
  to_prepare_.select = p;
  prepared_ = false;
  if (visible > p.topk) {
    prepare();
    select_rows(launch_, p);
  }
}

void CudaOps::attend(int layer, const Weight& sinks, DeviceMat<const float> q, DeviceMat<const float> kv,
                     DeviceMat<const int32_t> selected, DeviceMat<float> context) {
  if (!enter(__LINE__, layer, sinks, q, kv, selected, context)) {
    return;
  }
  prepare();
  overwrite(context.device_ptr());
  const int ratio = config_.ratio(layer);
  int entries = max_visible(ratio);
  if (selected.cols() > 0) {
    entries = std::min(entries, config_.index_topk);
  }
  AttendParams p{.cache = cache_params(layer),
                 .heads = config_.n_heads,
                 .dim = config_.head_dim,
                 .rope = config_.rope_dim,
                 .max_keys = config_.window + entries,
                 .sinks = vector(sinks),
                 .q = view(q),
                 .kv = view(kv),
                 .selected = selected.cols() > 0 ? view(selected) : View<const int32_t>{},
                 .topk = config_.index_topk,
                 .context = view(context)};
  if (can_attend_on_tensor_cores(p)) {
    p.splits = attend_splits(rows_, p.heads, p.max_keys, device_.multiprocessors());
    p.partials = attend_partials_.as<float>();
    const size_t parts = static_cast<size_t>(device_.multiprocessors()) * static_cast<size_t>(p.heads);
    p.partial_stats = reinterpret_cast<float2*>(p.partials + parts * static_cast<size_t>(p.dim));
    if (p.splits > 1) {
      p.q_context = offer_quantized(context);
    }
    attend_on_tensor_cores(launch_, p);
  } else {
    attend_rows(launch_, p);
  }
  if (!short_runs_) {
    store_ring_rows(launch_, p);
  }
}

void CudaOps::route(int layer, const RouterWeights& w, DeviceMat<const float> x, TopK experts) {
  if (!enter(__LINE__, layer, w.gate, x, experts.ids, experts.weights)) {
    return;
  }
  const DeviceMat<float> logits(router_logits_.as<float>(), x.rows(), config_.n_experts);
  const RouteParams p{
      .rows = x.rows(),
      .experts = config_.n_experts,
      .used = config_.n_experts_used,
      .scale = config_.routed_scale,
      .logits = {logits.device_ptr(), logits.ld()},
      .bias = w.bias ? vector(*w.bias) : nullptr,
      .token_table = w.token_to_expert ? reinterpret_cast<const int32_t*>(planes(*w.token_to_expert).codes) : nullptr,
      .tokens = staging_.view().tokens,
      .ids = view(experts.ids),
      .weights = view(experts.weights)};
  if (can_score_and_route(planes(w.gate), x.rows())) {
    pending_route_ = std::make_unique<PendingRoute>(PendingRoute{p, planes(w.gate), view(x)});
    return;
  }
  const ProductTask task{.w = planes(w.gate), .y = view(logits)};
  multiply({&task, 1}, x);
  route_rows(launch_, p);
}

void CudaOps::finish_route() {
  if (pending_route_) {
    score_and_route_rows(launch_, pending_route_->params, pending_route_->gate, pending_route_->x, arrived_.as<int>());
    pending_route_.reset();
  }
}

void CudaOps::experts(int layer, const ExpertWeights& routed, const ExpertWeights& shared, const TopK& chosen,
                      DeviceMat<const float> x, DeviceMat<float> y) {
  if (!enter(__LINE__, layer, routed.gate, routed.up, routed.down, shared.gate, shared.up, shared.down, chosen.ids,
             chosen.weights, x, y)) {
    return;
  }
  overwrite(y.device_ptr());
  for (const ExpertWeights* w : {&routed, &shared}) {
    if (w->gate.dtype != w->up.dtype) {
      throw Error(ErrorCode::kUnsupported,
                  fmt::format("{}: type {}, expected that of {}, {}", w->up.name, dtype_info(w->up.dtype).name,
                              w->gate.name, dtype_info(w->gate.dtype).name));
    }
  }
  const int slots = config_.n_experts_used + 1;
  const int ffn = std::max(routed.gate.out_dim, shared.gate.out_dim);
  const int hidden_rows = x.rows() * slots;
  ExpertParams p{.rows = x.rows(),
                 .used = config_.n_experts_used,
                 .limit = config_.swiglu_limit[static_cast<size_t>(layer)],
                 .shared_limit = config_.shared_swiglu_limit[static_cast<size_t>(layer)],
                 .gate = planes(routed.gate),
                 .up = planes(routed.up),
                 .down = planes(routed.down),
                 .shared_gate = planes(shared.gate),
                 .shared_up = planes(shared.up),
                 .shared_down = planes(shared.down),
                 .ids = {chosen.ids.device_ptr(), chosen.ids.ld()},
                 .weights = {chosen.weights.device_ptr(), chosen.weights.ld()},
                 .x = view(x),
                 .xq = {},
                 .hidden = {hidden_.as<float>(), ffn},
                 .hidden_q = {},
                 .y = view(y)};
  const auto many = [](const DeviceWeight& w) { return can_multiply_many_rows(w, 0); };
  if (!few_rows(x.rows())) {
    finish_route();
  }
  if (!few_rows(x.rows()) && many(p.gate) && many(p.down) && many(p.shared_gate) && many(p.shared_down)) {
    experts_many_rows(p, x);
    return;
  }
  if (has_integer_codes(p.gate.format) || has_integer_codes(p.shared_gate.format)) {
    p.xq = quantized(x);
  }
  if (ffn % 32 == 0) {
    p.hidden_q = quant_rows(hidden_int8_, hidden_rows, ffn);
  }
  if (pending_route_ && can_route_with_shared(pending_route_->gate, p)) {
    route_with_experts(launch_, pending_route_->params, pending_route_->gate, p, arrived_.as<int>());
    pending_route_.reset();
    return;
  }
  finish_route();
  if (can_group_few_rows(p) && p.hidden_q.codes != nullptr) {
    experts_grouped_rows(p);
    return;
  }
  experts_few_rows(launch_, p);
}

// Few rows, but more than one: rows are grouped by expert here too, in tiles of a few.
void CudaOps::experts_grouped_rows(ExpertParams p) {
  const ExpertGroups groups = group_rows(p, kExpertTile);
  // The shared expert: its halves as plain products.
  const int ffn = p.shared_gate.rows;
  const View<float> gate{expert_out_.as<float>(), ffn};
  const View<float> up{gate.data + static_cast<size_t>(p.rows) * static_cast<size_t>(ffn), ffn};
  ProductList halves;
  halves.tasks[0] = {.w = p.shared_gate, .y = gate};
  halves.tasks[1] = {.w = p.shared_up, .y = up};
  halves.n = 2;
  multiply_rows_as_int8(launch_, halves, p.rows, p.xq);
  const QuantRows shared = quant_rows(low_int8_, p.rows, ffn);
  swiglu_rows(launch_, p.rows, {gate.data, ffn}, {up.data, ffn}, p.shared_limit, shared);
  ProductList down;
  down.tasks[0] = {.w = p.shared_down, .y = p.y};
  down.n = 1;
  multiply_rows_as_int8(launch_, down, p.rows, shared);

  p.hidden_q = quant_rows(hidden_int8_, p.rows * p.used, p.gate.rows);
  experts_grouped(launch_, p, groups.tiles, groups.n_tiles, groups.max_tiles, groups.pairs, expert_out_.as<float>());
  add_experts(launch_, p.rows, p.used, config_.hidden, expert_out_.as<float>(), p.y);
}

CudaOps::ExpertGroups CudaOps::group_rows(const ExpertParams& p, int tile_rows) {
  const int pairs = p.rows * p.used;
  auto* pair_ids = expert_groups_.as<int32_t>();
  auto* pair_weights = reinterpret_cast<float*>(pair_ids + pairs);
  auto* n_tiles = reinterpret_cast<int32_t*>(pair_weights + pairs);
  auto* tiles = reinterpret_cast<RowTile*>(n_tiles + 4);
  group_by_expert(launch_, {.rows = p.rows,
                            .used = p.used,
                            .experts = config_.n_experts,
                            .tile_rows = tile_rows,
                            .ids = p.ids,
                            .weights = p.weights,
                            .pairs = pair_ids,
                            .pair_weights = pair_weights,
                            .tiles = tiles,
                            .n_tiles = n_tiles});
  return {pair_ids, pair_weights, tiles, n_tiles, max_row_tiles(pairs, config_.n_experts, tile_rows)};
}

// Rows are grouped by expert, so that each expert that is chosen at all is read once.
void CudaOps::experts_many_rows(const ExpertParams& p, DeviceMat<const float> x) {
  const int pairs = p.rows * p.used;
  const int mean_rows = pairs / config_.n_experts;
  constexpr int kLargeGroup = 56;  // mean rows of an expert from which a large tile decodes fewer weights twice
  const int tile_rows = mean_rows < kLargeGroup ? 64 : 128;
  const ExpertGroups groups = group_rows(p, tile_rows);
  const uint16_t* x16 = narrowed(x);
  auto* hidden = hidden_.as<uint16_t>();
  uint16_t* shared_hidden = hidden + static_cast<size_t>(pairs) * static_cast<size_t>(p.gate.rows);

  gemm_gate_up(launch_, {.w = p.shared_gate,
                         .up = p.shared_up,
                         .x = x16,
                         .ldx = x.cols(),
                         .rows = p.rows,
                         .y16 = shared_hidden,
                         .ldy16 = p.shared_gate.rows,
                         .limit = p.shared_limit});
  gemm(launch_, {.w = p.shared_down, .x = shared_hidden, .ldx = p.shared_gate.rows, .rows = p.rows, .y = p.y});

  GemmParams routed{.w = p.gate,
                    .up = p.up,
                    .x = x16,
                    .ldx = x.cols(),
                    .tiles = groups.tiles,
                    .n_tiles = groups.n_tiles,
                    .max_tiles = groups.max_tiles,
                    .tile_rows = tile_rows,
                    .row_list = groups.pairs,
                    .rows_per_x = p.used,
                    .y16 = hidden,
                    .ldy16 = p.gate.rows,
                    .weights = groups.pair_weights,
                    .limit = p.limit};
  gemm_gate_up(launch_, routed);
  routed.w = p.down;
  routed.x = hidden;
  routed.ldx = p.gate.rows;
  routed.rows_per_x = 1;
  routed.y = {expert_out_.as<float>(), config_.hidden};
  gemm(launch_, routed);
  add_experts(launch_, p.rows, p.used, config_.hidden, expert_out_.as<float>(), p.y);
}

}  // namespace fathom::cuda
