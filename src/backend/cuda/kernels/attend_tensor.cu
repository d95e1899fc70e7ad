// Attention on tensor cores, for packed rows of 448 + 64 dims and any multiple of 64 heads: all heads of a group share
// the keys of a tile, which are decoded to bf16 once (exactly: FP8 codes and bf16 fit). Queries and probabilities keep
// float32's upper 16 bits of mantissa as sums of two bf16 values.
//
// Few rows: the keys of a row are split over blocks, and a second kernel joins the parts.
#include "backend/cuda/kernels/attend_tensor.h"
#include "backend/cuda/kernels/cache_rows.cuh"
#include "backend/cuda/kernels/gemv.cuh"
#include "backend/cuda/kernels/launch.cuh"
#include "backend/cuda/kernels/mma.cuh"

namespace fathom::cuda {
namespace {

constexpr int kDim = 512;
constexpr int kRope = 64;
constexpr int kNope = kDim - kRope;
constexpr int kKeys = 64;      // of one tile
constexpr int kFewHeads = 32;  // of one block when keys are split
constexpr int kThreads = 256;
constexpr int kRowStride = kDim + 8;  // bf16 values: rows start four banks apart
constexpr int kProbStride = kKeys + 8;
constexpr float kLog2E = 1.4426950408889634F;

// kHeads: of one block.
template <int kHeads>
struct Shared {
  uint16_t query[2][kHeads][kRowStride];  // upper and lower half of the mantissa
  uint16_t keys[kKeys][kRowStride];
  uint16_t probabilities[2][kHeads][kProbStride];
  float max[8 / (kHeads / 16)][kHeads];
  float sum[8 / (kHeads / 16)][kHeads];
};

struct KeyRange {
  int first_position;
  int n_window;
  int n;
};

__device__ KeyRange keys_of(const AttendParams& p, int row) {
  const int position = p.cache.step.row_position[row];
  KeyRange k;
  k.first_position = max(0, position - p.cache.window + 1);
  k.n_window = position + 1 - k.first_position;
  int entries = p.cache.ratio > 0 ? (position + 1) / p.cache.ratio : 0;
  if (p.selected.data != nullptr) {
    entries = min(entries, p.topk);
  }
  k.n = k.n_window + entries;
  return k;
}

// Sixteen dims of one key, as they lie in memory.
struct RawPiece {
  uint4 a;
  uint4 b;
  float scale;  // 0: bf16 already
};

__device__ RawPiece load_packed(const RowRegion& g, std::byte* region, int row, int piece) {
  const RowPlanes planes = kv_planes(g, region, row);
  RawPiece r;
  r.b = make_uint4(0, 0, 0, 0);
  if (piece < kNope / 16) {
    r.a = *reinterpret_cast<const uint4*>(planes.codes + 16 * piece);
    r.scale = e8m0(static_cast<unsigned>(planes.scales[piece / 4]));
  } else {
    const auto* from = reinterpret_cast<const uint4*>(planes.rope + 32 * (piece - kNope / 16));
    r.a = from[0];
    r.b = from[1];
    r.scale = 0.0F;
  }
  return r;
}

__device__ RawPiece load_float(const float* row, int piece) {
  const auto* from = reinterpret_cast<const float4*>(row) + 4 * piece;
  RawPiece r;
  const float4 v0 = from[0];
  const float4 v1 = from[1];
  const float4 v2 = from[2];
  const float4 v3 = from[3];
  r.a = make_uint4(pack_bf16(v0.x, v0.y), pack_bf16(v0.z, v0.w), pack_bf16(v1.x, v1.y), pack_bf16(v1.z, v1.w));
  r.b = make_uint4(pack_bf16(v2.x, v2.y), pack_bf16(v2.z, v2.w), pack_bf16(v3.x, v3.y), pack_bf16(v3.z, v3.w));
  r.scale = 0.0F;
  return r;
}

__device__ uint32_t decode_pair(uint32_t two_codes, float scale) {
  const __half2 h(__nv_cvt_fp8x2_to_halfraw2(static_cast<__nv_fp8x2_storage_t>(two_codes), __NV_E4M3));
  const float2 v = __half22float2(h);
  return pack_bf16(v.x * scale, v.y * scale);
}

__device__ void store_piece(const RawPiece& r, uint16_t* to) {
  auto* out = reinterpret_cast<uint4*>(to);
  if (r.scale == 0.0F) {
    out[0] = r.a;
    out[1] = r.b;
    return;
  }
  const uint32_t w[4] = {r.a.x, r.a.y, r.a.z, r.a.w};
  uint32_t v[8];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    v[2 * i] = decode_pair(w[i] & 0xFFFF, r.scale);
    v[2 * i + 1] = decode_pair(w[i] >> 16, r.scale);
  }
  out[0] = make_uint4(v[0], v[1], v[2], v[3]);
  out[1] = make_uint4(v[4], v[5], v[6], v[7]);
}

// Where a key lies: packed in a region, or (region null) as float32 in the step's rows.
struct KeyPlace {
  std::byte* region;
  const float* values;
  int row;  // in the region; -1: no key
};

__device__ KeyPlace place_of(const AttendParams& p, const KeyRange& range, int row, int key) {
  const CacheParams& c = p.cache;
  if (key >= range.n) {
    return {nullptr, nullptr, -1};
  }
  const int sequence = c.step.row_sequence[row];
  if (key < range.n_window) {
    const int start = c.step.starts[sequence];
    const int t = range.first_position + key;
    if (t < start) {
      return {c.step.slots[sequence] + c.ring.offset, nullptr, t % c.ring_rows};
    }
    return {nullptr, p.kv.data + (c.step.first_rows[sequence] + t - start) * p.kv.ld, 0};
  }
  const int e = key - range.n_window;
  const int entry = p.selected.data != nullptr ? p.selected.data[row * p.selected.ld + e] : e;
  return {entry_region(c, sequence, entry, c.entries), nullptr, entry % c.rows_per_block};
}

// Each warp loads eight keys, a piece of each a lane: lane i finds out where the i-th lies.
class KeyLoads {
 public:
  __device__ void start(const AttendParams& p, const KeyRange& range, int row, int first) {
    const int warp = threadIdx.x / kWarp;
    const int lane = threadIdx.x % kWarp;
    const KeyPlace mine = place_of(p, range, row, first + warp + 8 * (lane % 8));
#pragma unroll
    for (int i = 0; i < kKeys / 8; ++i) {
      KeyPlace place;
      place.region =
          reinterpret_cast<std::byte*>(__shfl_sync(kFullMask, reinterpret_cast<unsigned long long>(mine.region), i));
      place.values =
          reinterpret_cast<const float*>(__shfl_sync(kFullMask, reinterpret_cast<unsigned long long>(mine.values), i));
      place.row = __shfl_sync(kFullMask, mine.row, i);
      if (place.row < 0) {
        raw_[i] = {make_uint4(0, 0, 0, 0), make_uint4(0, 0, 0, 0), 0.0F};
      } else if (place.region == nullptr) {
        raw_[i] = load_float(place.values, lane);
      } else {
        const bool in_ring = first + warp + 8 * i < range.n_window;
        raw_[i] = load_packed(in_ring ? p.cache.ring : p.cache.entries, place.region, place.row, lane);
      }
    }
  }

  __device__ void finish(uint16_t (&keys)[kKeys][kRowStride]) const {
    const int warp = threadIdx.x / kWarp;
#pragma unroll
    for (int i = 0; i < kKeys / 8; ++i) {
      store_piece(raw_[i], &keys[warp + 8 * i][16 * (threadIdx.x % kWarp)]);
    }
  }

 private:
  RawPiece raw_[kKeys / 8];
};

template <int kHeads>
__device__ void load_query(const AttendParams& p, int row, int first_head, Shared<kHeads>& s) {
  const auto* from = reinterpret_cast<const float4*>(p.q.data + row * p.q.ld + first_head * kDim);
#pragma unroll 8
  for (int i = threadIdx.x; i < kHeads * kDim / 4; i += kThreads) {
    const float4 v = from[i];
    const uint32_t high0 = pack_bf16(v.x, v.y);
    const uint32_t high1 = pack_bf16(v.z, v.w);
    const int head = i / (kDim / 4);
    const int d = i % (kDim / 4) * 4;
    *reinterpret_cast<uint2*>(&s.query[0][head][d]) = make_uint2(high0, high1);
    *reinterpret_cast<uint2*>(&s.query[1][head][d]) =
        make_uint2(pack_remainder(v.x, v.y, high0), pack_remainder(v.z, v.w, high1));
  }
}

// Eight warps: 16 heads each, times equal parts, of the keys in the first product, of the dims in the second.
template <int kHeads>
__global__ void __launch_bounds__(kThreads, 1) attend_tensor_kernel(const __grid_constant__ AttendParams p) {
  extern __shared__ uint4 shared_bytes[];
  auto& s = *reinterpret_cast<Shared<kHeads>*>(shared_bytes);
  constexpr int kParts = 8 / (kHeads / 16);
  constexpr int kPartKeys = kKeys / kParts;
  constexpr int kPartDims = kDim / kParts;
  wait_for_predecessor();
  let_successor_start();
  const int row = blockIdx.x;
  const int split = blockIdx.y;
  const int first_head = static_cast<int>(blockIdx.z) * kHeads;
  const int warp_m = threadIdx.x / kWarp / kParts;
  const int warp_n = threadIdx.x / kWarp % kParts;
  const int lane = threadIdx.x % kWarp;
  const KeyRange range = keys_of(p, row);
  const int tiles = ceil_div(range.n, kKeys);
  const int per_split = ceil_div(tiles, p.splits);
  const int first_tile = split * per_split;
  const int end_tile = min(tiles, first_tile + per_split);

  float out[kPartDims / 8][4] = {};
  float max[2] = {-INFINITY, -INFINITY};
  float sum[2] = {0.0F, 0.0F};
  KeyLoads loads;
  if (first_tile < end_tile) {
    loads.start(p, range, row, first_tile * kKeys);
    load_query(p, row, first_head, s);
  }
  const float scale = rsqrtf(static_cast<float>(kDim)) * kLog2E;
  for (int tile = first_tile; tile < end_tile; ++tile) {
    if (tile > first_tile) {
      loads.start(p, range, row, tile * kKeys);
    }
    loads.finish(s.keys);
    __syncthreads();

    float score[kPartKeys / 8][4] = {};
    {
      float rest[kPartKeys / 8][4] = {};  // products of the lower halves: shorter chains of dependent sums
      const int r = warp_m * 16 + lane % 16;
      const int key = warp_n * kPartKeys + lane % 8 + lane / 16 * 8;
#pragma unroll 4
      for (int k = 0; k < kDim; k += 16) {
        uint32_t high[4];
        uint32_t low[4];
        load_matrices(high, &s.query[0][r][k + lane / 16 * 8]);
        load_matrices(low, &s.query[1][r][k + lane / 16 * 8]);
#pragma unroll
        for (int n = 0; n < kPartKeys / 8; n += 2) {
          uint32_t b[4];
          load_matrices(b, &s.keys[key + n * 8][k + lane / 8 % 2 * 8]);
          multiply_add(score[n], high, b[0], b[1]);
          multiply_add(score[n + 1], high, b[2], b[3]);
          multiply_add(rest[n], low, b[0], b[1]);
          multiply_add(rest[n + 1], low, b[2], b[3]);
        }
      }
#pragma unroll
      for (int n = 0; n < kPartKeys / 8; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          score[n][i] += rest[n][i];
        }
      }
    }
    float tile_max[2] = {-INFINITY, -INFINITY};
#pragma unroll
    for (int n = 0; n < kPartKeys / 8; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int key = tile * kKeys + warp_n * kPartKeys + n * 8 + lane % 4 * 2 + i % 2;
        score[n][i] = key < range.n ? score[n][i] * scale : -INFINITY;
        tile_max[i / 2] = fmaxf(tile_max[i / 2], score[n][i]);
      }
    }
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      tile_max[h] = fmaxf(tile_max[h], __shfl_xor_sync(kFullMask, tile_max[h], 1));
      tile_max[h] = fmaxf(tile_max[h], __shfl_xor_sync(kFullMask, tile_max[h], 2));
      if (lane % 4 == 0) {
        s.max[warp_n][warp_m * 16 + h * 8 + lane / 4] = tile_max[h];
      }
    }
    __syncthreads();
    float shrink[2];
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int r = warp_m * 16 + h * 8 + lane / 4;
      float next = max[h];
#pragma unroll
      for (int part = 0; part < kParts; ++part) {
        next = fmaxf(next, s.max[part][r]);
      }
      shrink[h] = exp2f(max[h] - next);
      max[h] = next;
      sum[h] *= shrink[h];
    }
#pragma unroll
    for (int n = 0; n < kPartKeys / 8; ++n) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const float a = exp2f(score[n][2 * h] - max[h]);
        const float b = exp2f(score[n][2 * h + 1] - max[h]);
        sum[h] += a + b;
        const uint32_t high = pack_bf16(a, b);
        const int r = warp_m * 16 + h * 8 + lane / 4;
        const int key = warp_n * kPartKeys + n * 8 + lane % 4 * 2;
        *reinterpret_cast<uint32_t*>(&s.probabilities[0][r][key]) = high;
        *reinterpret_cast<uint32_t*>(&s.probabilities[1][r][key]) = pack_remainder(a, b, high);
      }
    }
#pragma unroll
    for (int n = 0; n < kPartDims / 8; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        out[n][i] *= shrink[i / 2];
      }
    }
    __syncthreads();

#pragma unroll
    for (int k = 0; k < kKeys; k += 16) {
      uint32_t high[4];
      uint32_t low[4];
      load_matrices(high, &s.probabilities[0][warp_m * 16 + lane % 16][k + lane / 16 * 8]);
      load_matrices(low, &s.probabilities[1][warp_m * 16 + lane % 16][k + lane / 16 * 8]);
#pragma unroll
      for (int n = 0; n < kPartDims / 8; n += 2) {
        uint32_t b[4];
        load_matrices_transposed(b, &s.keys[k + lane % 16][warp_n * kPartDims + n * 8 + lane / 16 * 8]);
        multiply_add(out[n], high, b[0], b[1]);
        multiply_add(out[n + 1], high, b[2], b[3]);
        multiply_add(out[n], low, b[0], b[1]);
        multiply_add(out[n + 1], low, b[2], b[3]);
      }
    }
    __syncthreads();
  }

  // Sums over the lanes of a row and over both halves of the keys.
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    sum[h] += __shfl_xor_sync(kFullMask, sum[h], 1);
    sum[h] += __shfl_xor_sync(kFullMask, sum[h], 2);
    if (lane % 4 == 0) {
      s.sum[warp_n][warp_m * 16 + h * 8 + lane / 4] = sum[h];
    }
  }
  __syncthreads();
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int r = warp_m * 16 + h * 8 + lane / 4;
    const int head = first_head + r;
    float total = 0.0F;
#pragma unroll
    for (int part = 0; part < kParts; ++part) {
      total += s.sum[part][r];
    }
    if (p.splits > 1) {
      const int64_t at = (static_cast<int64_t>(row) * p.splits + split) * p.heads + head;
      float* partial = p.partials + at * kDim;
#pragma unroll
      for (int n = 0; n < kPartDims / 8; ++n) {
        const int d = warp_n * kPartDims + n * 8 + lane % 4 * 2;
        *reinterpret_cast<float2*>(partial + d) = make_float2(out[n][2 * h], out[n][2 * h + 1]);
      }
      if (warp_n == 0 && lane % 4 == 0) {
        p.partial_stats[at] = make_float2(max[h], total);
      }
      continue;
    }
    const float sink = p.sinks[head] * kLog2E;
    const float top = fmaxf(max[h], sink);
    const float factor = exp2f(max[h] - top) / (total * exp2f(max[h] - top) + exp2f(sink - top));
    float* to = p.context.data + row * p.context.ld + head * kDim;
    const float2* rotations = p.cache.rotations + row * (kRope / 2);
#pragma unroll
    for (int n = 0; n < kPartDims / 8; ++n) {
      const int d = warp_n * kPartDims + n * 8 + lane % 4 * 2;
      float2 v = make_float2(out[n][2 * h] * factor, out[n][2 * h + 1] * factor);
      if (d >= kNope) {
        const float2 t = rotations[(d - kNope) / 2];
        v = make_float2(v.x * t.x + v.y * t.y, v.y * t.x - v.x * t.y);
      }
      *reinterpret_cast<float2*>(to + d) = v;
    }
  }
}

// One head of one row: the parts together with the sink, the rotation undone, and the int8 form.
__global__ void __launch_bounds__(kDim / 4) join_kernel(const __grid_constant__ AttendParams p) {
  wait_for_predecessor();
  let_successor_start();
  const int head = blockIdx.x;
  const int row = blockIdx.y;
  const int64_t first = static_cast<int64_t>(row) * p.splits * p.heads + head;
  const float sink = p.sinks[head] * kLog2E;
  float top = sink;
  for (int i = 0; i < p.splits; ++i) {
    const float2 stats = p.partial_stats[first + i * p.heads];
    top = stats.y > 0.0F ? fmaxf(top, stats.x) : top;
  }
  float total = exp2f(sink - top);
  float4 sum = make_float4(0.0F, 0.0F, 0.0F, 0.0F);
  for (int i = 0; i < p.splits; ++i) {
    const int64_t at = first + i * p.heads;
    const float2 stats = p.partial_stats[at];
    if (stats.y > 0.0F) {
      const float w = exp2f(stats.x - top);
      const float4 v = reinterpret_cast<const float4*>(p.partials + at * kDim)[threadIdx.x];
      total += w * stats.y;
      sum = make_float4(sum.x + w * v.x, sum.y + w * v.y, sum.z + w * v.z, sum.w + w * v.w);
    }
  }
  const float r = 1.0F / total;
  float4 v = make_float4(sum.x * r, sum.y * r, sum.z * r, sum.w * r);
  const int d = static_cast<int>(threadIdx.x) * 4;
  if (d >= kNope) {
    const float2* t = p.cache.rotations + row * (kRope / 2) + (d - kNope) / 2;
    v = make_float4(v.x * t[0].x + v.y * t[0].y, v.y * t[0].x - v.x * t[0].y, v.z * t[1].x + v.w * t[1].y,
                    v.w * t[1].x - v.z * t[1].y);
  }
  *reinterpret_cast<float4*>(p.context.data + row * p.context.ld + head * kDim + d) = v;
  if (p.q_context.codes == nullptr) {
    return;
  }
  store_four_quantized(p.q_context, row, head * kDim + d, v);
}

}  // namespace

bool can_attend_on_tensor_cores(const AttendParams& p) {
  return p.dim == kDim && p.rope == kRope && p.heads % 64 == 0 && p.cache.ring.packed && p.q.ld % 4 == 0 &&
         p.kv.ld % 4 == 0;
}

int attend_splits(int rows, int heads, int max_keys, int multiprocessors) {
  const int tiles = ceil_div(max_keys, kKeys);
  const int wanted = multiprocessors / (rows * (heads / kFewHeads));
  return wanted < 1 ? 1 : wanted < tiles ? wanted : tiles;
}

void attend_on_tensor_cores(const Launch& launch, const AttendParams& p) {
  if (p.splits == 1) {
    constexpr int kHeads = 64;
    start(launch, attend_tensor_kernel<kHeads>, dim3(p.cache.rows, 1, p.heads / kHeads), kThreads,
          sizeof(Shared<kHeads>), p);
    return;
  }
  start(launch, attend_tensor_kernel<kFewHeads>, dim3(p.cache.rows, p.splits, p.heads / kFewHeads), kThreads,
        sizeof(Shared<kFewHeads>), p);
  start(launch, join_kernel, dim3(p.heads, p.cache.rows), kDim / 4, 0, p);
}

}  // namespace fathom::cuda
