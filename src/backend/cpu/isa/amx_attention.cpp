// Attention on AMX tiles of bfloat16, 16 heads by 32 keys at a time, where all tiles are 16 rows of 64 bytes; and the
// indexer on tiles of bytes, 16 heads by 16 keys.
#include "backend/cpu/isa/vec_avx512.h"
// The vectors come first.
#include "backend/cpu/isa/attention_impl.h"

namespace fathom::cpu {
namespace {

constexpr int kTileStep = 32;                 // dims of one tile product
constexpr int kTileValues = kTileHeads * 32;  // bfloat16 values in a tile

struct alignas(64) TileConfig {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
static_assert(sizeof(TileConfig) == 64);
constexpr TileConfig kTileConfig;

// 16 x 16 dwords, in place.
inline void transpose(__m512i* r) {
  __m512i t[16];
  for (int i = 0; i < 16; i += 4) {
    const __m512i ab_low = _mm512_unpacklo_epi32(r[i], r[i + 1]);
    const __m512i ab_high = _mm512_unpackhi_epi32(r[i], r[i + 1]);
    const __m512i cd_low = _mm512_unpacklo_epi32(r[i + 2], r[i + 3]);
    const __m512i cd_high = _mm512_unpackhi_epi32(r[i + 2], r[i + 3]);
    t[i] = _mm512_unpacklo_epi64(ab_low, cd_low);
    t[i + 1] = _mm512_unpackhi_epi64(ab_low, cd_low);
    t[i + 2] = _mm512_unpacklo_epi64(ab_high, cd_high);
    t[i + 3] = _mm512_unpackhi_epi64(ab_high, cd_high);
  }
  for (int i = 0; i < 4; ++i) {
    const __m512i low = _mm512_shuffle_i32x4(t[i], t[i + 4], 0x44);
    const __m512i high = _mm512_shuffle_i32x4(t[i], t[i + 4], 0xEE);
    const __m512i low2 = _mm512_shuffle_i32x4(t[i + 8], t[i + 12], 0x44);
    const __m512i high2 = _mm512_shuffle_i32x4(t[i + 8], t[i + 12], 0xEE);
    r[i] = _mm512_shuffle_i32x4(low, low2, 0x88);
    r[i + 4] = _mm512_shuffle_i32x4(low, low2, 0xDD);
    r[i + 8] = _mm512_shuffle_i32x4(high, high2, 0x88);
    r[i + 12] = _mm512_shuffle_i32x4(high, high2, 0xDD);
  }
}

// Two vectors as 32 bfloat16 numbers, in order.
inline __m512i to_bf16(F32 first, F32 second) { return (__m512i)_mm512_cvtne2ps_pbh(second.v, first.v); }
inline F32 rounded_to_bf16(F32 x) {
  return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32((__m256i)_mm512_cvtneps_pbh(x.v)), 16))};
}
// Two vectors as one of pairs.
inline __m512i to_bf16_pairs(F32 first, F32 second) {
  const __m512i a = _mm512_cvtepu16_epi32((__m256i)_mm512_cvtneps_pbh(first.v));
  const __m512i b = _mm512_cvtepu16_epi32((__m256i)_mm512_cvtneps_pbh(second.v));
  return _mm512_or_si512(a, _mm512_slli_epi32(b, 16));
}

// [group of heads][step of dims][upper, lower part][16 pairs of dims][16 heads][2]
void split_query(const float* q, int n_heads, int dim, uint16_t* out) noexcept {
  for (int first = 0; first < n_heads; first += kTileHeads) {
    for (int d = 0; d < dim; d += kTileStep) {
      __m512i upper[kTileHeads];
      __m512i lower[kTileHeads];
      for (int h = 0; h < kTileHeads; ++h) {
        const float* head = q + static_cast<ptrdiff_t>(first + h) * dim + d;
        const F32 a = load(head);
        const F32 b = load(head + 16);
        upper[h] = to_bf16(a, b);
        lower[h] = to_bf16(a - rounded_to_bf16(a), b - rounded_to_bf16(b));
      }
      transpose(upper);
      transpose(lower);
      for (int p = 0; p < kTileHeads; ++p) {
        _mm512_storeu_si512(out + 32 * p, upper[p]);
        _mm512_storeu_si512(out + kTileValues + 32 * p, lower[p]);
      }
      out += 2 * kTileValues;
    }
  }
}

// Dims [d, d + 32) of a key: [half of the keys][step of dims][16 keys][32].
inline ptrdiff_t key_offset(int row, int d, int dim) {
  return (static_cast<ptrdiff_t>(row / 16) * (dim / kTileStep) + d / kTileStep) * kTileValues + row % 16 * kTileStep;
}

void set_key(const float* key, int dim, int row, uint16_t* keys) noexcept {
  for (int d = 0; d < dim; d += kTileStep) {
    _mm512_storeu_si512(keys + key_offset(row, d, dim), to_bf16(load(key + d), load(key + d + 16)));
  }
}

// Word i of two vectors side by side: a_0 b_0 a_1 b_1 ... by permutex2var.
struct PairOrder {
  uint16_t words[64];
};
constexpr PairOrder make_pair_order() {
  PairOrder order = {};
  for (int i = 0; i < 32; ++i) {
    order.words[2 * i] = static_cast<uint16_t>(i);
    order.words[2 * i + 1] = static_cast<uint16_t>(32 + i);
  }
  return order;
}
constexpr PairOrder kPairOrder = make_pair_order();

// E4M3 magnitudes as bfloat16, upper and lower bytes apart.
struct E4M3Table {
  uint8_t upper[128];
  uint8_t lower[128];
};
constexpr E4M3Table make_e4m3_table() {
  E4M3Table table = {};
  for (int code = 0; code < 128; ++code) {
    int mantissa = code & 7;
    int exponent = (code >> 3) + 120;  // of bfloat16
    if (code < 8) {
      ++exponent;
      while (mantissa != 0 && mantissa < 8) {
        mantissa *= 2;
        --exponent;
      }
      mantissa &= 7;
    }
    const int word = code == 0 ? 0 : code == 0x7F ? 0x7FC0 : exponent << 7 | mantissa << 4;
    table.upper[code] = static_cast<uint8_t>(word >> 8);
    table.lower[code] = static_cast<uint8_t>(word & 0xFF);
  }
  return table;
}
constexpr E4M3Table kE4M3 = make_e4m3_table();

// 64 codes as 64 bfloat16 numbers times a power of two, in two vectors.
inline void unpack_group(const std::byte* codes, uint8_t scale, __m512i* out) {
  const __m512i sign_bit = _mm512_set1_epi8(-128);
  // Unpacking works within 128-bit lanes: put the eight bytes first that it shall put first.
  const __m512i order = _mm512_setr_epi64(0, 4, 1, 5, 2, 6, 3, 7);
  const __m512i code = _mm512_permutexvar_epi64(order, _mm512_loadu_si512(codes));
  const __m512i sign = _mm512_and_si512(code, sign_bit);
  const __m512i lower =
      _mm512_permutex2var_epi8(_mm512_loadu_si512(kE4M3.lower), code, _mm512_loadu_si512(kE4M3.lower + 64));
  const __m512i upper =
      _mm512_permutex2var_epi8(_mm512_loadu_si512(kE4M3.upper), code, _mm512_loadu_si512(kE4M3.upper + 64));
  const __m512i signed_upper = _mm512_or_si512(upper, sign);
  const __m512i shift = _mm512_set1_epi16(static_cast<int16_t>((scale - 127) * 128));
  const __m512i words[2] = {_mm512_unpacklo_epi8(lower, signed_upper), _mm512_unpackhi_epi8(lower, signed_upper)};
  for (int i = 0; i < 2; ++i) {
    const __mmask32 not_zero = _mm512_test_epi16_mask(words[i], _mm512_set1_epi16(0x7FFF));
    out[i] =
        scale == kNanScale ? _mm512_set1_epi16(0x7FC0) : _mm512_mask_add_epi16(words[i], not_zero, words[i], shift);
  }
}

void unpack_key(const std::byte* row, int nope, int rope, int index, uint16_t* keys) noexcept {
  const int dim = nope + rope;
  for (int d = 0; d < nope; d += kFp8Values) {
    __m512i values[2];
    unpack_group(row + d, static_cast<uint8_t>(row[nope + d / kFp8Values]), values);
    _mm512_storeu_si512(keys + key_offset(index, d, dim), values[0]);
    _mm512_storeu_si512(keys + key_offset(index, d + kTileStep, dim), values[1]);
  }
  const std::byte* tail = row + nope + nope / kFp8Values;
  for (int d = 0; d < rope; d += kTileStep) {
    _mm512_storeu_si512(keys + key_offset(index, nope + d, dim), _mm512_loadu_si512(tail + 2 * d));
  }
}

// pairs: [16 dims][16 pairs of keys][16][2]
void finish_keys(uint16_t* keys, int first, int last, int dim, uint16_t* pairs) noexcept {
  for (int d = 0; d < dim; d += kTileStep) {
    uint16_t* out = pairs + static_cast<ptrdiff_t>(d) * kTileKeys;
    for (int row = 0; row < kTileKeys; row += 2) {
      uint16_t* even = keys + key_offset(row, d, dim);
      uint16_t* odd = even + kTileStep;
      if (row < first || row >= last) {
        _mm512_storeu_si512(even, _mm512_setzero_si512());
      }
      if (row + 1 < first || row + 1 >= last) {
        _mm512_storeu_si512(odd, _mm512_setzero_si512());
      }
      const __m512i a = _mm512_loadu_si512(even);
      const __m512i b = _mm512_loadu_si512(odd);
      _mm512_storeu_si512(out + 16 * row, _mm512_permutex2var_epi16(a, _mm512_loadu_si512(kPairOrder.words), b));
      _mm512_storeu_si512(out + kTileValues + 16 * row,
                          _mm512_permutex2var_epi16(a, _mm512_loadu_si512(kPairOrder.words + 32), b));
    }
  }
}

// scores [kTileKeys][16 heads] of the upper and the lower part of the query.
inline void score_tile(const TileBlock& b, const uint16_t* q, float* scores, float* lower_scores) {
  const uint16_t* keys = b.keys;
  const uint16_t* other_keys = keys + key_offset(16, 0, b.dim);
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(6);
  _tile_zero(7);
  for (int d = 0; d < b.dim; d += kTileStep) {
    _tile_loadd(2, keys, 64);
    _tile_loadd(3, other_keys, 64);
    _tile_loadd(4, q, 64);
    _tile_loadd(5, q + kTileValues, 64);
    _tile_dpbf16ps(0, 2, 4);
    _tile_dpbf16ps(1, 3, 4);
    _tile_dpbf16ps(6, 2, 5);
    _tile_dpbf16ps(7, 3, 5);
    keys += kTileValues;
    other_keys += kTileValues;
    q += 2 * kTileValues;
  }
  _tile_stored(0, scores, 64);
  _tile_stored(1, scores + 16 * 16, 64);
  _tile_stored(6, lower_scores, 64);
  _tile_stored(7, lower_scores + 16 * 16, 64);
}

// Turns scores into weights [16 heads][kTileKeys], in two parts; returns what the earlier sums are worth now.
inline F32 weigh_tile(const TileBlock& b, int first_head, float* scores, const float* lower_scores, uint16_t* upper,
                      uint16_t* lower) {
  const F32 scale = set1(b.scale);
  const F32 old_max = load(b.max + first_head);
  F32 new_max = old_max;
  for (int k = b.first; k < b.last; ++k) {
    const F32 score = (load(scores + 16 * k) + load(lower_scores + 16 * k)) * scale;
    store(scores + 16 * k, score);
    new_max = max(new_max, score);
  }
  const F32 keep = exponential(old_max - new_max);
  F32 total = load(b.total + first_head) * keep;
  F32 weights[kTileKeys];
  for (int k = 0; k < kTileKeys; ++k) {
    weights[k] = set1(0.0F);
    if (b.first <= k && k < b.last) {
      weights[k] = exponential(load(scores + 16 * k) - new_max);
      total = total + weights[k];
    }
  }
  store(b.max + first_head, new_max);
  store(b.total + first_head, total);

  __m512i high[16];
  __m512i low[16];
  for (int p = 0; p < 16; ++p) {
    const F32 a = weights[2 * p];
    const F32 c = weights[2 * p + 1];
    high[p] = to_bf16_pairs(a, c);
    low[p] = to_bf16_pairs(a - rounded_to_bf16(a), c - rounded_to_bf16(c));
  }
  transpose(high);
  transpose(low);
  for (int h = 0; h < 16; ++h) {
    _mm512_storeu_si512(upper + kTileKeys * h, high[h]);
    _mm512_storeu_si512(lower + kTileKeys * h, low[h]);
  }
  return keep;
}

inline void rescale(float* sum, int dim, F32 keep) {
  alignas(64) float factors[16];
  store(factors, keep);
  for (int h = 0; h < 16; ++h) {
    if (factors[h] == 1.0F) {
      continue;
    }
    float* row = sum + static_cast<ptrdiff_t>(h) * dim;
    for (int d = 0; d < dim; d += 16) {
      store(row + d, load(row + d) * set1(factors[h]));
    }
  }
}

// Tile numbers are literals in these intrinsics.
inline void add_tile(const TileBlock& b, const uint16_t* upper, const uint16_t* lower, float* sum) {
  const auto sum_bytes = static_cast<size_t>(b.dim) * sizeof(float);
  const uint16_t* pairs = b.pairs;
  _tile_loadd(4, upper, 64);
  _tile_loadd(5, lower, 64);
  for (int d = 0; d < b.dim; d += 64) {
    _tile_loadd(0, sum + d, sum_bytes);
    _tile_loadd(1, sum + d + 16, sum_bytes);
    _tile_loadd(2, pairs, 64);
    _tile_loadd(3, pairs + kTileValues, 64);
    _tile_dpbf16ps(0, 4, 2);
    _tile_dpbf16ps(1, 4, 3);
    _tile_dpbf16ps(0, 5, 2);
    _tile_dpbf16ps(1, 5, 3);
    pairs += 2 * kTileValues;
    _tile_loadd(6, sum + d + 32, sum_bytes);
    _tile_loadd(7, sum + d + 48, sum_bytes);
    _tile_loadd(2, pairs, 64);
    _tile_loadd(3, pairs + kTileValues, 64);
    _tile_dpbf16ps(6, 4, 2);
    _tile_dpbf16ps(7, 4, 3);
    _tile_dpbf16ps(6, 5, 2);
    _tile_dpbf16ps(7, 5, 3);
    pairs += 2 * kTileValues;
    _tile_stored(0, sum + d, sum_bytes);
    _tile_stored(1, sum + d + 16, sum_bytes);
    _tile_stored(6, sum + d + 32, sum_bytes);
    _tile_stored(7, sum + d + 48, sum_bytes);
  }
}

void attend_tile_block(const TileBlock& b) noexcept {
  alignas(64) float scores[kTileKeys * 16];
  alignas(64) float lower_scores[kTileKeys * 16];
  alignas(64) uint16_t upper[16 * kTileKeys];
  alignas(64) uint16_t lower[16 * kTileKeys];
  _tile_loadconfig(&kTileConfig);
  for (int first = 0; first < b.n_heads; first += kTileHeads) {
    float* sum = b.sum + static_cast<ptrdiff_t>(first) * b.dim;
    score_tile(b, b.q + static_cast<ptrdiff_t>(first) * b.dim * 2, scores, lower_scores);
    rescale(sum, b.dim, weigh_tile(b, first, scores, lower_scores, upper, lower));
    add_tile(b, upper, lower, sum);
  }
  _tile_release();
}

// --- Indexer -------------------------------------------------------------------------------------------------------

constexpr int kScoredKeys = 16;
constexpr int kScoredGroups = 4;  // of FP4 values: the real index_dim
constexpr int8_t kDoubledCodes[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

// Tiles 0 to 3: a group of 16 keys; 4 and 5: the same group of 16 heads, four dims a row; 6 and 7: sums of products.
constexpr TileConfig make_index_config() {
  TileConfig config;
  for (int t = 0; t < kScoredGroups; ++t) {
    config.row_bytes[t] = kFp4Values;
  }
  config.rows[4] = kFp4Values / 4;
  config.rows[5] = kFp4Values / 4;
  return config;
}
constexpr TileConfig kIndexConfig = make_index_config();

// sums [kScoredGroups][16 keys][16 heads] of one vector of heads.
inline void multiply_codes(const int8_t* codes, int32_t* sums) {
  constexpr int kGroupCodes = 16 * kFp4Values;
  constexpr int kGroupSums = kScoredKeys * 16;
  _tile_zero(6);
  _tile_zero(7);
  _tile_loadd(4, codes, 64);
  _tile_loadd(5, codes + kGroupCodes, 64);
  _tile_dpbssd(6, 0, 4);
  _tile_dpbssd(7, 1, 5);
  _tile_stored(6, sums, 64);
  _tile_stored(7, sums + kGroupSums, 64);
  _tile_zero(6);
  _tile_zero(7);
  _tile_loadd(4, codes + 2 * kGroupCodes, 64);
  _tile_loadd(5, codes + 3 * kGroupCodes, 64);
  _tile_dpbssd(6, 2, 4);
  _tile_dpbssd(7, 3, 5);
  _tile_stored(6, sums + 2 * kGroupSums, 64);
  _tile_stored(7, sums + 3 * kGroupSums, 64);
}

// The first `count` of 16 keys whose codes are in `keys`.
inline void score_key_tile(const IndexQuery& query, const float* key_scales, const uint8_t* keys, int count,
                           float* scores) {
  alignas(64) int32_t sums[kScoredGroups * kScoredKeys * 16];
  F32 total[kScoredKeys];
  for (F32& t : total) {
    t = set1(0.0F);
  }
  const auto key_bytes = static_cast<size_t>(query.dim);
  _tile_loadd(0, keys, key_bytes);
  _tile_loadd(1, keys + kFp4Values, key_bytes);
  _tile_loadd(2, keys + static_cast<ptrdiff_t>(2) * kFp4Values, key_bytes);
  _tile_loadd(3, keys + static_cast<ptrdiff_t>(3) * kFp4Values, key_bytes);
  for (int v = 0; v < query.n_vectors; ++v) {
    const ptrdiff_t at = static_cast<ptrdiff_t>(v) * kScoredGroups * 16;
    multiply_codes(query.codes + at * kFp4Values, sums);
    const F32 weights = load(query.weights + 16 * v);
    for (int k = 0; k < count; ++k) {
      F32 dot = set1(0.0F);
      for (int g = 0; g < kScoredGroups; ++g) {
        const F32 scale = load(query.scales + at + 16 * g) * set1(key_scales[kScoredGroups * k + g]);
        dot = fma(to_float(load(sums + (g * kScoredKeys + k) * 16)), scale, dot);
      }
      total[k] = fma(weights, max(dot, set1(0.0F)), total[k]);
    }
  }
  store(scores, sum_each(total), count);
}

void score_codes_in_tiles(const IndexQuery& query, const std::byte* rows, int n, uint8_t* keys,
                          float* scores) noexcept {
  if (query.dim != kScoredGroups * kFp4Values) {
    score_codes(query, rows, n, keys, scores);
    return;
  }
  constexpr ptrdiff_t kCodeBytes = kScoredGroups * kFp4Values / 2;
  constexpr ptrdiff_t kRowBytes = kCodeBytes + kScoredGroups;
  float key_scales[kScoredKeys * kScoredGroups];
  _tile_loadconfig(&kIndexConfig);
  for (int first = 0; first < n; first += kScoredKeys) {
    const int count = n - first < kScoredKeys ? n - first : kScoredKeys;
    for (int k = 0; k < count; ++k) {
      const std::byte* row = rows + (first + k) * kRowBytes;
      for (int g = 0; g < kScoredGroups; ++g) {
        unpack_nibbles(row + g * (kFp4Values / 2), kDoubledCodes, keys + k * query.dim + g * kFp4Values);
        key_scales[kScoredGroups * k + g] = scale_value(static_cast<uint8_t>(row[kCodeBytes + g]));
      }
    }
    score_key_tile(query, key_scales, keys, count, scores + first);
  }
  _tile_release();
}

constexpr TileAttentionKernels kTileKernels = {split_query, set_key, unpack_key, finish_keys, attend_tile_block};

}  // namespace

const AttentionKernels kAttentionAmx = {
    attend_block, unpack_kv, set_index_values, set_index_codes, score_values, score_codes_in_tiles, &kTileKernels};

}  // namespace fathom::cpu
