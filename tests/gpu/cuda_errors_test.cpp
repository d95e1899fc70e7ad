// What the CUDA backend refuses, and in which words.
#include <gtest/gtest.h>

#include "gpu/pair.h"
#include "support/expect_error.h"

namespace fathom {
namespace {

using test::flash_like;
using test::RandomWeight;

TEST(CudaErrors, NoSuchDevice) {
  EXPECT_ERROR(cuda::CudaOps(flash_like(512), {.kind = BackendKind::kCuda, .device = 99}), ErrorCode::kUnsupported,
               "device 99 does not exist");
}

TEST(CudaErrors, TooLittleMemory) {
  EXPECT_ERROR(cuda::CudaOps(flash_like(512), {.kind = BackendKind::kCuda, .gpu_memory = size_t{1} << 20}),
               ErrorCode::kOutOfMemory, "do not fit");
}

TEST(CudaErrors, MixMatrixOfAQuantisedType) {
  const ModelConfig config = flash_like(512);
  cuda::CudaOps ops(config, {.kind = BackendKind::kCuda, .max_rows = 4});
  ops.reserve_cache(1, 1);
  const RandomWeight fn("fn", DType::kQ8_0, config.hc_mix(), config.hc * config.hidden, 1, 1);
  const RandomWeight vector("vector", DType::kF32, 1, 512, 1, 2);
  const Weight v = ops.upload(vector.weight(), WeightRole::kVector);
  const HcWeights hc{ops.upload(fn.weight(), WeightRole::kMatrix), v, v};
  const std::vector<TokenId> tokens(1);
  const std::vector<int32_t> blocks(1);
  const SequenceSlice slice{.slot = 0, .blocks = blocks, .start = 0, .first_row = 0, .n_rows = 1};
  ops.begin_step({tokens, {&slice, 1}, {}});
  const HcMix mix{ops.make_f32(1, 4), ops.make_f32(1, 16)};
  EXPECT_ERROR(ops.hc_enter(hc, v, ops.make_f32(1, 2048), mix, ops.make_f32(1, 512)), ErrorCode::kUnsupported,
               "fn: type Q8_0, the cuda backend takes F32, F16 or BF16 here");
}

TEST(CudaErrors, GateAndUpOfDifferentTypes) {
  const ModelConfig config = flash_like(512);
  cuda::CudaOps ops(config, {.kind = BackendKind::kCuda, .max_rows = 4});
  ops.reserve_cache(1, 1);
  const RandomWeight gate("gate", DType::kQ8_0, 256, 512, 16, 1);
  const RandomWeight up("up", DType::kBF16, 256, 512, 16, 2);
  const RandomWeight down("down", DType::kQ8_0, 512, 256, 16, 3);
  const ExpertWeights w{ops.upload(gate.weight(), WeightRole::kExperts), ops.upload(up.weight(), WeightRole::kExperts),
                        ops.upload(down.weight(), WeightRole::kExperts)};
  const TopK chosen{ops.make_i32(1, 6), ops.make_f32(1, 6)};
  EXPECT_ERROR(ops.experts(0, w, w, chosen, ops.make_f32(1, 512), ops.make_f32(1, 512)), ErrorCode::kUnsupported,
               "up: type BF16, expected that of gate, Q8_0");
}

TEST(CudaErrors, ScalesOfAnotherShape) {
  cuda::CudaOps ops(flash_like(512), {.kind = BackendKind::kCuda, .max_rows = 4});
  const RandomWeight data("odd", DType::kF4_E2M1, 8, 512, 1, 1);
  Weight w = data.weight();
  w.scale_rows = 8;
  EXPECT_ERROR((void)ops.upload(w, WeightRole::kMatrix), ErrorCode::kUnsupported,
               "odd: one scale per 8 x 32 values, expected 1 x 32");
}

}  // namespace
}  // namespace fathom
