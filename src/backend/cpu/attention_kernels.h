// The table of an instruction set for attention and the indexer: what attention.cpp and indexer.cpp call. Kernels are
// pure, allocate nothing and never fail. They are written once over vectors of 16 lanes (isa/vec_*.h), so all tables
// give the same bits.
#pragma once

#include <cstddef>
#include <cstdint>

namespace fathom::cpu {

inline constexpr int kKeyBlock = 16;      // keys that are scored together
inline constexpr int kIndexKeys = 4;      // the same for the indexer
inline constexpr int kMaxIndexKeys = 16;  // on matrix units

// One block of keys, which are also the values, against the heads of one query: a step of an online softmax. A head's
// state before the first block is its sink: max = sink, total = 1, sum = 0.
struct AttendBlock {
  const float* keys = nullptr;  // [kKeyBlock][key_ld]; all rows are read, those not seen may hold anything
  ptrdiff_t key_ld = 0;
  int first = 0;  // rows that the query sees
  int last = 0;
  int dim = 0;  // a multiple of 16
  float scale = 1.0F;
  int n_heads = 0;
  const float* q = nullptr;  // [n_heads][dim]
  float* max = nullptr;      // [n_heads]: largest score so far
  float* total = nullptr;    // [n_heads]: sum of exp(score - max)
  float* sum = nullptr;      // [n_heads][dim]: sum of exp(score - max) key
};

// The same on matrix units, for keys that are bfloat16 numbers, as packed rows are. Queries and weights are split into
// two bfloat16 parts each, which together keep 16 bits of them; sums are float32.
inline constexpr int kTileKeys = 32;   // keys of a block
inline constexpr int kTileHeads = 16;  // heads that are taken together

struct TileBlock {
  const uint16_t* keys = nullptr;   // of set_key, [kTileKeys * dim]
  const uint16_t* pairs = nullptr;  // of finish_keys: the same, two keys side by side
  int first = 0;
  int last = 0;
  int dim = 0;  // a multiple of 64
  float scale = 1.0F;
  int n_heads = 0;              // a multiple of kTileHeads
  const uint16_t* q = nullptr;  // of split_query
  float* max = nullptr;         // state as in AttendBlock
  float* total = nullptr;
  float* sum = nullptr;
};

struct TileAttentionKernels {
  // q [n_heads][dim] to out [n_heads * dim * 2].
  void (*split_query)(const float* q, int n_heads, int dim, uint16_t* out) noexcept;
  // Key `index` of the block, from floats or from a packed row.
  void (*set_key)(const float* key, int dim, int index, uint16_t* keys) noexcept;
  void (*unpack_key)(const std::byte* row, int nope, int rope, int index, uint16_t* keys) noexcept;
  // Clears the rows that are not in [first, last) and fills `pairs`.
  void (*finish_keys)(uint16_t* keys, int first, int last, int dim, uint16_t* pairs) noexcept;
  void (*attend_block)(const TileBlock& block) noexcept;
};

// Heads of one query against index keys. Heads are lanes; those beyond the last have weight 0.
struct IndexQuery {
  int n_vectors = 0;  // of 16 heads
  int dim = 0;
  float* weights = nullptr;    // [n_vectors][16]
  float* values = nullptr;     // [n_vectors][dim][16]: for rows of floats
  int8_t* codes = nullptr;     // [n_vectors][dim / 4][16][4]: doubled E2M1 values; for rows of codes
  int32_t* offsets = nullptr;  // [n_vectors][dim / 32][16]: what the dot products with biased keys start from
  float* scales = nullptr;     // [n_vectors][dim / 32][16]: a quarter of the scale
};

struct AttentionKernels {
  void (*attend_block)(const AttendBlock& block) noexcept;
  // Packed row (core/packed_rows.h) to floats.
  void (*unpack_kv)(const std::byte* row, int nope, int rope, float* out) noexcept;

  // Fills head `head` of the query from its rotated values [dim].
  void (*set_index_values)(const IndexQuery& query, int head, const float* values) noexcept;
  void (*set_index_codes)(const IndexQuery& query, int head, const float* values) noexcept;  // dim a multiple of 32
  // scores[i] = sum over heads of weight * max(0, head . key i) for n consecutive rows. `keys`: [kMaxIndexKeys][dim].
  void (*score_values)(const IndexQuery& query, const std::byte* rows, int n, float* scores) noexcept;
  void (*score_codes)(const IndexQuery& query, const std::byte* rows, int n, uint8_t* keys, float* scores) noexcept;

  const TileAttentionKernels* tiles;  // null without matrix units
};

extern const AttentionKernels kAttentionScalar;
extern const AttentionKernels kAttentionAvx2;
extern const AttentionKernels kAttentionAvx512;
extern const AttentionKernels kAttentionAmx;

}  // namespace fathom::cpu
