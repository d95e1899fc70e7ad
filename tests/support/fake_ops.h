// A backend without steps, for tests of what decides about cache bytes: it holds them, records every call, and can be
// told to fail. Fresh memory is filled with 0xA5.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "backend/ops.h"
#include "core/check.h"
#include "core/error.h"

namespace fathom {

class FakeOps : public Ops {
 public:
  explicit FakeOps(CacheLayout layout) : layout_(std::move(layout)) {}

  struct Reservation {
    int slots;
    int blocks;
    bool operator==(const Reservation&) const = default;
  };
  struct Copy {
    int from;
    int to;
    bool operator==(const Copy&) const = default;
  };

  std::vector<Reservation> reservations;
  std::vector<Copy> slot_copies;
  std::vector<Copy> block_copies;
  bool fail_reserve = false;  // kOutOfMemory
  bool fail_copies = false;   // kDevice

  [[nodiscard]] std::span<std::byte> slot(int i) { return slots_.at(static_cast<size_t>(i)); }
  [[nodiscard]] std::span<std::byte> block(int i) { return blocks_.at(static_cast<size_t>(i)); }

  [[nodiscard]] std::string_view name() const override { return "fake"; }
  [[nodiscard]] const CacheLayout& cache_layout() const override { return layout_; }

  void reserve_cache(int n_slots, int n_blocks) override {
    FATHOM_CHECK(n_slots >= static_cast<int>(slots_.size()) && n_blocks >= static_cast<int>(blocks_.size()),
                 "reservations only grow");
    if (fail_reserve) {
      throw Error(ErrorCode::kOutOfMemory, "fake: no memory");
    }
    reservations.push_back({n_slots, n_blocks});
    slots_.resize(static_cast<size_t>(n_slots), std::vector(layout_.slot_bytes, std::byte{0xA5}));
    blocks_.resize(static_cast<size_t>(n_blocks), std::vector(layout_.block_bytes, std::byte{0xA5}));
  }
  void copy_slot(int from, int to) override {
    fail_if_told();
    slot_copies.push_back({from, to});
    write_slot(to, slot(from));
  }
  void copy_block(int from, int to) override {
    fail_if_told();
    block_copies.push_back({from, to});
    write_block(to, block(from));
  }
  void read_slot(int i, std::span<std::byte> out) override { std::memcpy(out.data(), slot(i).data(), out.size()); }
  void read_block(int i, std::span<std::byte> out) override { std::memcpy(out.data(), block(i).data(), out.size()); }
  void write_slot(int i, std::span<const std::byte> in) override { std::memcpy(slot(i).data(), in.data(), in.size()); }
  void write_block(int i, std::span<const std::byte> in) override {
    std::memcpy(block(i).data(), in.data(), in.size());
  }

  Weight upload(const Weight& /*weight*/, WeightRole /*role*/) override { no_steps(); }
  DeviceMat<float> make_f32(int /*rows*/, int /*cols*/) override { no_steps(); }
  DeviceMat<int32_t> make_i32(int /*rows*/, int /*cols*/) override { no_steps(); }
  void read_f32(DeviceMat<const float> /*from*/, HostMat<float> /*to*/) override { no_steps(); }
  void read_i32(DeviceMat<const int32_t> /*from*/, HostMat<int32_t> /*to*/) override { no_steps(); }
  void begin_step(const StepBatch& /*batch*/) override { no_steps(); }
  void embed(const Weight& /*table*/, DeviceMat<float> /*streams*/) override { no_steps(); }
  void hc_enter(const HcWeights& /*hc*/, const Weight& /*norm*/, DeviceMat<const float> /*streams*/, HcMix /*mix*/,
                DeviceMat<float> /*x*/) override {
    no_steps();
  }
  void hc_exit(DeviceMat<const float> /*y*/, const HcMix& /*mix*/, DeviceMat<float> /*streams*/) override {
    no_steps();
  }
  void hc_collapse(const HcWeights& /*hc*/, const Weight& /*norm*/, DeviceMat<const float> /*streams*/,
                   DeviceMat<float> /*x*/) override {
    no_steps();
  }
  void matmul(std::span<const Product> /*products*/, DeviceMat<const float> /*x*/) override { no_steps(); }
  void rms_norm(const Weight& /*gain*/, DeviceMat<const float> /*x*/, DeviceMat<float> /*y*/) override { no_steps(); }
  void norm_rope(int /*layer*/, const Weight& /*kv_norm*/, DeviceMat<float> /*q*/, DeviceMat<float> /*kv*/) override {
    no_steps();
  }
  void compress(int /*layer*/, const CompressorWeights& /*w*/, DeviceMat<const float> /*kv*/,
                DeviceMat<const float> /*gate*/) override {
    no_steps();
  }
  void compress_index(int /*layer*/, const CompressorWeights& /*w*/, DeviceMat<const float> /*kv*/,
                      DeviceMat<const float> /*gate*/) override {
    no_steps();
  }
  void select_entries(int /*layer*/, DeviceMat<float> /*q*/, DeviceMat<const float> /*weights*/,
                      DeviceMat<int32_t> /*selected*/) override {
    no_steps();
  }
  void attend(int /*layer*/, const Weight& /*sinks*/, DeviceMat<const float> /*q*/, DeviceMat<const float> /*kv*/,
              DeviceMat<const int32_t> /*selected*/, DeviceMat<float> /*context*/) override {
    no_steps();
  }
  void matmul_grouped(const Weight& /*w*/, DeviceMat<const float> /*context*/, DeviceMat<float> /*low*/) override {
    no_steps();
  }
  void route(int /*layer*/, const RouterWeights& /*w*/, DeviceMat<const float> /*x*/, TopK /*experts*/) override {
    no_steps();
  }
  void experts(int /*layer*/, const ExpertWeights& /*routed*/, const ExpertWeights& /*shared*/, const TopK& /*chosen*/,
               DeviceMat<const float> /*x*/, DeviceMat<float> /*y*/) override {
    no_steps();
  }
  void end_step(DeviceMat<const float> /*logits*/, HostMat<float> /*out*/) override { no_steps(); }

 private:
  [[noreturn]] static void no_steps() {
    FATHOM_CHECK(false, "the fake backend runs no steps");
    std::abort();
  }
  void fail_if_told() const {
    if (fail_copies) {
      throw Error(ErrorCode::kDevice, "fake: copy failed");
    }
  }

  CacheLayout layout_;
  std::vector<std::vector<std::byte>> slots_;
  std::vector<std::vector<std::byte>> blocks_;
};

}  // namespace fathom
