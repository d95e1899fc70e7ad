#include "backend/profiling_ops.h"

#include <algorithm>
#include <chrono>

#include "weights/weight_size.h"

namespace fathom {
namespace {

// "blk.12.attn_q_a.weight" -> "attn_q_a"
std::string short_name(std::string_view name) {
  constexpr std::string_view kBlock = "blk.";
  constexpr std::string_view kSuffix = ".weight";
  if (name.starts_with(kBlock)) {
    name.remove_prefix(std::min(name.size(), name.find('.', kBlock.size()) + 1));
  }
  if (name.ends_with(kSuffix)) {
    name.remove_suffix(kSuffix.size());
  }
  return std::string(name);
}

}  // namespace

void ProfilingOps::Work::add_product(const Weight& w, int rows) {
  weight_bytes += rows > 0 ? static_cast<double>(fathom::weight_bytes(w)) : 0.0;
  operations += 2.0 * static_cast<double>(weight_elements(w)) * rows;
}

template <class Call>
void ProfilingOps::measure(std::string op, const Work& work, DeviceMat<const float> result, Call&& call) {
  const auto begin = std::chrono::steady_clock::now();
  call();
  if (result.rows() > 0) {
    float element = 0.0F;
    inner_->read_f32(result.slice_rows(0, 1).slice_cols(0, 1), {&element, 1, 1});
  }
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
  OpProfile& profile = profiles_[std::move(op)];
  ++profile.calls;
  profile.seconds += elapsed.count();
  profile.weight_bytes += work.weight_bytes;
  profile.operations += work.operations;
}

std::vector<OpProfile> ProfilingOps::take() {
  std::vector<OpProfile> sorted;
  for (auto& [op, profile] : profiles_) {
    profile.op = op;
    sorted.push_back(profile);
  }
  profiles_.clear();
  std::ranges::stable_sort(sorted, std::greater<>{}, &OpProfile::seconds);
  return sorted;
}

void ProfilingOps::begin_step(const StepBatch& batch) {
  measure("begin_step", {}, {}, [&] { inner_->begin_step(batch); });
}

void ProfilingOps::embed(const Weight& table, DeviceMat<float> streams) {
  const Work work{.weight_bytes = static_cast<double>(weight_bytes(table)) / table.out_dim * streams.rows()};
  measure("embed", work, streams, [&] { inner_->embed(table, streams); });
}

void ProfilingOps::hc_enter(const HcWeights& hc, const Weight& norm, DeviceMat<const float> streams, HcMix mix,
                            DeviceMat<float> x) {
  Work work;
  work.add_product(hc.fn, streams.rows());
  measure("hc_enter", work, x, [&] { inner_->hc_enter(hc, norm, streams, mix, x); });
}

void ProfilingOps::hc_exit(DeviceMat<const float> y, const HcMix& mix, DeviceMat<float> streams) {
  measure("hc_exit", {}, streams, [&] { inner_->hc_exit(y, mix, streams); });
}

void ProfilingOps::hc_collapse(const HcWeights& hc, const Weight& norm, DeviceMat<const float> streams,
                               DeviceMat<float> x) {
  Work work;
  work.add_product(hc.fn, x.rows());
  measure("hc_collapse", work, x, [&] { inner_->hc_collapse(hc, norm, streams, x); });
}

void ProfilingOps::matmul(std::span<const Product> products, DeviceMat<const float> x) {
  Work work;
  for (const Product& product : products) {
    work.add_product(*product.weight, x.rows());
  }
  measure("matmul " + short_name(products.front().weight->name), work, products.back().y,
          [&] { inner_->matmul(products, x); });
}

void ProfilingOps::rms_norm(const Weight& gain, DeviceMat<const float> x, DeviceMat<float> y) {
  measure("rms_norm", {}, y, [&] { inner_->rms_norm(gain, x, y); });
}

void ProfilingOps::norm_rope(int layer, const Weight& kv_norm, DeviceMat<float> q, DeviceMat<float> kv) {
  measure("norm_rope", {}, kv, [&] { inner_->norm_rope(layer, kv_norm, q, kv); });
}

void ProfilingOps::compress(int layer, const CompressorWeights& w, DeviceMat<const float> kv,
                            DeviceMat<const float> gate) {
  measure("compress", {}, kv, [&] { inner_->compress(layer, w, kv, gate); });
}

void ProfilingOps::compress_index(int layer, const CompressorWeights& w, DeviceMat<const float> kv,
                                  DeviceMat<const float> gate) {
  measure("compress_index", {}, kv, [&] { inner_->compress_index(layer, w, kv, gate); });
}

void ProfilingOps::select_entries(int layer, DeviceMat<float> q, DeviceMat<const float> weights,
                                  DeviceMat<int32_t> selected) {
  measure("select_entries", {}, q, [&] { inner_->select_entries(layer, q, weights, selected); });
}

void ProfilingOps::attend(int layer, const Weight& sinks, DeviceMat<const float> q, DeviceMat<const float> kv,
                          DeviceMat<const int32_t> selected, DeviceMat<float> context) {
  measure("attend", {}, context, [&] { inner_->attend(layer, sinks, q, kv, selected, context); });
}

void ProfilingOps::matmul_grouped(const Weight& w, DeviceMat<const float> context, DeviceMat<float> low) {
  Work work;
  work.add_product(w, context.rows());
  measure("matmul_grouped", work, low, [&] { inner_->matmul_grouped(w, context, low); });
}

void ProfilingOps::route(int layer, const RouterWeights& w, DeviceMat<const float> x, TopK experts) {
  Work work;
  work.add_product(w.gate, x.rows());
  measure("route", work, experts.weights, [&] { inner_->route(layer, w, x, experts); });
}

int ProfilingOps::count_experts(const TopK& chosen, int n_experts) {
  const int rows = chosen.ids.rows();
  const int cols = chosen.ids.cols();
  ids_.resize(static_cast<size_t>(rows) * static_cast<size_t>(cols));
  inner_->read_i32(chosen.ids, {ids_.data(), rows, cols});
  used_.assign(static_cast<size_t>(n_experts), false);
  for (const int32_t id : ids_) {
    used_[static_cast<size_t>(id)] = true;
  }
  return static_cast<int>(std::ranges::count(used_, true));
}

void ProfilingOps::experts(int layer, const ExpertWeights& routed, const ExpertWeights& shared, const TopK& chosen,
                           DeviceMat<const float> x, DeviceMat<float> y) {
  const int n_experts = routed.gate.count();
  const double touched = static_cast<double>(count_experts(chosen, n_experts)) / n_experts;
  const double per_row = static_cast<double>(chosen.ids.cols()) / n_experts;
  Work all;
  Work work;
  for (const Weight* w : {&routed.gate, &routed.up, &routed.down}) {
    all.add_product(*w, x.rows());
  }
  for (const Weight* w : {&shared.gate, &shared.up, &shared.down}) {
    work.add_product(*w, x.rows());
  }
  work.weight_bytes += all.weight_bytes * touched;
  work.operations += all.operations * per_row;
  measure("experts", work, y, [&] { inner_->experts(layer, routed, shared, chosen, x, y); });
}

void ProfilingOps::end_step(DeviceMat<const float> logits, HostMat<float> out) {
  measure("end_step", {}, {}, [&] { inner_->end_step(logits, out); });
}

}  // namespace fathom
