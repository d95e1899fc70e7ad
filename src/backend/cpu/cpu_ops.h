// Ops on host memory with the kernels of one instruction set. Owns packed weights, activation scratch and cache bytes.
#pragma once

#include <deque>
#include <vector>

#include "backend/cpu/kernels.h"
#include "backend/cpu/packed_matrix.h"
#include "backend/cpu/quantised_rows.h"
#include "backend/reference/reference_ops.h"

namespace fathom::cpu {

class CpuOps final : public reference::ReferenceOps {
 public:
  CpuOps(const ModelConfig& config, const BackendOptions& options);

  [[nodiscard]] std::string_view name() const override { return "cpu"; }
  [[nodiscard]] const char* isa() const { return kernels_.isa; }

  [[nodiscard]] Weight upload(const Weight& weight, WeightRole role) override;
  void embed(const Weight& table, DeviceMat<float> streams) override;
  void matmul(std::span<const Product> products, DeviceMat<const float> x) override;
  void matmul_grouped(const Weight& w, DeviceMat<const float> context, DeviceMat<float> low) override;
  void experts(int layer, const ExpertWeights& routed, const ExpertWeights& shared, const TopK& chosen,
               DeviceMat<const float> x, DeviceMat<float> y) override;

 private:
  // One product's inputs: quantised rows for weights of integer codes, floats for the others.
  struct Input {
    const QuantisedRows* quantised;
    int first_tile = 0;
    int first_block = 0;
    const float* floats = nullptr;
    ptrdiff_t ld = 0;
    int rows = 0;
  };
  // The outputs of one panel for all rows, into y [rows][ld] at the panel's first lane.
  void multiply_panel(const PackedMatrix& w, int slice, int panel, const Input& x, float* y, ptrdiff_t ld,
                      int first_lane, int last_lane, int thread);
  void quantise_rows(QuantisedRows& out, DeviceMat<const float> x);
  // Runs body(range, thread) over [0, n); on the caller's thread when the work, in bytes of weights, is not worth more.
  template <class Body>
  void split(int64_t n, size_t work_bytes, Body&& body);

  // Rows of a step by the expert that takes them; expert n_experts is the shared one and takes all.
  struct ExpertRows {
    int expert;
    int first;  // in row_of_
    int count;
    int tile;  // of the gathered rows
  };
  void group_by_expert(const TopK& chosen, int rows);
  void gather_rows(DeviceMat<const float> x);
  void expand_experts(int layer, const ExpertWeights& routed, const ExpertWeights& shared, const TopK& chosen);
  void reduce_experts(const ExpertWeights& routed, const ExpertWeights& shared, DeviceMat<float> y);

  const CpuKernels& kernels_;
  int max_rows_;
  std::deque<PackedMatrix> matrices_;
  std::vector<HostBuffer> workspaces_;  // one per thread

  QuantisedRows input_;  // of matmul
  // Experts: rows gathered by expert, and what lies between their two products.
  QuantisedRows gathered_;
  QuantisedRows hidden_codes_;
  HostBuffer gathered_floats_;
  HostBuffer gate_;
  HostBuffer up_;
  std::vector<HostBuffer> partial_;  // one per thread: an expert's share of one output panel
  std::vector<ExpertRows> groups_;
  std::vector<int> row_of_;       // rows of the step, grouped
  std::vector<float> weight_of_;  // their routing weights
  std::vector<int> count_;
};

}  // namespace fathom::cpu
