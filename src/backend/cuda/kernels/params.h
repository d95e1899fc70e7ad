// What kernels take, shared by host and device, and the functions that launch them. One file of launches per family.
#pragma once

#include <cuda_runtime_api.h>
#include <vector_types.h>

#include <cstddef>
#include <cstdint>

#include "backend/cuda/device_weight.h"

namespace fathom::cuda {

// Where and how kernels are started. `overlap`: programmatic dependent launch, only for chains of our own kernels.
struct Launch {
  cudaStream_t stream = nullptr;
  bool overlap = false;
  int multiprocessors = 1;
};

template <class T>
struct View {  // row-major
  T* data = nullptr;
  int64_t ld = 0;
};

// Rows of activations as int8 blocks of 32 with one scale each. What the codes leave is a second code, worth 1 / 254 of
// the first; products with Q8_0 take both, so that activations keep 15 bits there.
struct QuantRows {
  int8_t* codes = nullptr;  // [rows, cols]
  int8_t* low = nullptr;    // [rows, cols]
  float* scales = nullptr;  // [rows, cols / 32]
  int cols = 0;
};

// The step as kernels see it; all pointers are device memory and stay the same from step to step.
struct StepView {
  const int32_t* tokens = nullptr;         // [T]
  const int32_t* row_sequence = nullptr;   // [T]
  const int32_t* row_position = nullptr;   // [T]
  const int32_t* logit_rows = nullptr;     // [n_logits]
  const int32_t* starts = nullptr;         // [S] committed positions of a sequence
  const int32_t* first_rows = nullptr;     // [S]
  const int32_t* row_counts = nullptr;     // [S]
  const int32_t* table_offsets = nullptr;  // [S] first block of a sequence in `blocks`
  std::byte* const* slots = nullptr;       // [S]
  std::byte* const* blocks = nullptr;
  const float2* plain_rotations = nullptr;       // [T, rope_dim / 2] cos, sin at the row's position
  const float2* compressed_rotations = nullptr;  // the same for layers that compress
};

// How cache rows of one layer lie in a slot or block. Packed rows are kept as three planes per region: codes, rotary
// dims, scales; together they take the bytes that CacheLayout counts.
struct RowRegion {
  size_t offset = 0;  // in the slot or block
  int rows = 0;
  int dims = 0;
  int rope = 0;  // 0 for index rows
  bool packed = false;
};

// --- linear.cu ---------------------------------------------------------------------------------------------------
inline constexpr int kMaxProducts = 8;

struct ProductTask {
  DeviceWeight w = {};
  View<float> y = {};
  int group_rows = 0;  // > 0: row o reads input columns [o / group_rows * w.cols, ...) of x
  QuantRows q = {};    // codes not null: also y as int8 blocks; see can_quantize_product()
};
struct ProductList {
  ProductTask tasks[kMaxProducts];
  int first_tile[kMaxProducts + 1] = {};
  int n = 0;
};

// Whether multiply_few_rows() honours ProductTask::q.
[[nodiscard]] bool can_quantize_product(const DeviceWeight& w, int rows, int multiprocessors);
void quantize_rows(const Launch& launch, int rows, View<const float> x, QuantRows q);
// All tasks of one format; few rows. Integer formats read q, the others x.
void multiply_few_rows(const Launch& launch, Format format, ProductList list, int rows, View<const float> x,
                       QuantRows q);
// One row: the tasks of `list` are Q8_0, those of `floats` of one float format, and all go in one launch.
// Several rows and Q8_0 on tensor cores: each weight is read once. Groups of kMmaRows rows of the weight.
constexpr int kMmaRows = 16;
[[nodiscard]] bool can_multiply_rows_as_int8(const ProductTask& task, int rows);
void multiply_rows_as_int8(const Launch& launch, ProductList list, int rows, QuantRows q);
[[nodiscard]] bool can_multiply_mixed(Format integer, Format floating, int rows);
void multiply_mixed(const Launch& launch, ProductList list, ProductList floats, View<const float> x, QuantRows q);
void rms_norm_rows(const Launch& launch, int rows, int cols, float eps, const float* gain, View<const float> x,
                   View<float> y, QuantRows q);
// F32 weights, many rows.
[[nodiscard]] bool can_multiply_many_f32_rows(const ProductTask& task, View<const float> x);
void multiply_many_f32_rows(const Launch& launch, const ProductTask& task, int rows, View<const float> x);

// --- gemm*.cu ----------------------------------------------------------------------------------------------------
// Many rows, tensor cores: bf16 products of exactly decoded codes, float32 sums.
void to_bf16_rows(const Launch& launch, int rows, int cols, View<const float> x, uint16_t* out);
// group_rows: of a grouped product, else 0.
[[nodiscard]] bool can_multiply_many_rows(const DeviceWeight& w, int group_rows);

// Rows of one block: [first, first + n) of the row list, all for the same slice of the weight.
struct RowTile {
  int slice;
  int first;
  int n;
  int unused;
};

struct GemmParams {
  DeviceWeight w = {};
  ProductList list = {};        // instead of w and y: several products of one format, none of them grouped
  DeviceWeight up = {};         // gate-up only: w is the gate
  const uint16_t* x = nullptr;  // bf16
  int64_t ldx = 0;
  int rows = 0;  // without tiles: all rows, one slice
  int group_rows = 0;
  const RowTile* tiles = nullptr;
  const int32_t* n_tiles = nullptr;
  int max_tiles = 0;
  int tile_rows = 0;                  // with tiles: rows of the largest
  const int32_t* row_list = nullptr;  // row of y; row of x = that / rows_per_x
  int rows_per_x = 1;
  View<float> y = {};
  // gate-up only: y16[row] = weights[row] * swiglu(...), bf16
  uint16_t* y16 = nullptr;
  int64_t ldy16 = 0;
  const float* weights = nullptr;
  float limit = 0.0F;
};
void gemm(const Launch& launch, const GemmParams& p);
// p.list in one launch; its tiles are filled in.
void gemm_list(const Launch& launch, GemmParams p);
void gemm_gate_up(const Launch& launch, const GemmParams& p);
[[nodiscard]] int gemm_tile_rows(int rows_per_slice);

// Sorts the pairs (row, choice) by expert and cuts them into tiles of one expert each.
struct GroupParams {
  int rows = 0;
  int used = 0;
  int experts = 0;
  int tile_rows = 0;
  View<const int32_t> ids = {};
  View<const float> weights = {};
  int32_t* pairs = nullptr;       // [rows * used], row * used + choice
  float* pair_weights = nullptr;  // [rows * used] by pair
  RowTile* tiles = nullptr;
  int32_t* n_tiles = nullptr;
};
void group_by_expert(const Launch& launch, const GroupParams& p);
[[nodiscard]] int max_row_tiles(int pairs, int experts, int tile_rows);
// y[r] += sum of out[r * used + i] in ascending i.
void add_experts(const Launch& launch, int rows, int used, int cols, const float* out, View<float> y);

// --- hyper_connection.cu -----------------------------------------------------------------------------------------
struct HcParams {
  int rows = 0;
  int hc = 0;
  int hidden = 0;
  int iterations = 0;
  float hc_eps = 0.0F;
  float rms_eps = 0.0F;
  DeviceWeight fn = {};
  const float* base = nullptr;
  const float* scale = nullptr;
  const float* norm = nullptr;
  View<float> streams = {};
  View<float> post = {};
  View<float> comb = {};
  View<float> x = {};
  QuantRows q = {};                  // codes null: not wanted
  float* partials = nullptr;         // [rows, parts, hc_mix + 1]
  const int32_t* row_map = nullptr;  // head: row i reads streams of row row_map[i]
  bool head = false;
  // A previous exit to be done first; y null: none.
  View<const float> exit_y = {};
  View<const float> exit_post = {};
  View<const float> exit_comb = {};
};
[[nodiscard]] int hc_parts(int hidden);
void hc_enter_rows(const Launch& launch, const HcParams& p);
void hc_exit_rows(const Launch& launch, const HcParams& p);
void embed_rows(const Launch& launch, int rows, int hc, const StepView& step, const DeviceWeight& table,
                View<float> streams);

// --- cache rows: attention.cu, prepare.cu, indexer.cu ---------------------------------------------------------
struct CacheParams {
  int rows = 0;  // of the step
  bool simulated = false;
  StepView step = {};
  const float2* rotations = nullptr;  // of the layer, per row
  RowRegion ring = {};
  RowRegion entries = {};
  RowRegion index = {};
  int ring_rows = 0;
  int window = 0;
  int ratio = 0;
  int rows_per_block = 0;
};

struct HeadParams {
  CacheParams cache = {};
  int heads = 0;
  float eps = 0.0F;
  const float* kv_norm = nullptr;
  View<float> q = {};
  View<float> kv = {};
  bool store_ring = false;  // also writes the rows to the ring
};

struct StateRegion {
  size_t offset = 0;
  int capacity = 0;
};
struct CompressParams {
  CacheParams cache = {};
  StateRegion state = {};
  bool short_runs = false;  // nothing that is stored can be in the way of what is pooled
  bool index = false;
  int width = 0;
  int roles = 0;
  int rope = 0;
  float eps = 0.0F;
  const float* frequencies = nullptr;  // [rope / 2]
  const float* ape = nullptr;
  const float* norm = nullptr;
  View<const float> kv = {};
  View<const float> gate = {};
};

struct SelectParams {
  CacheParams cache = {};
  int heads = 0;
  int dim = 0;
  int rope = 0;
  int topk = 0;
  int max_visible = 0;  // over the rows of the step, rounded up to what the launch is made for
  View<float> q = {};
  View<const float> weights = {};
  View<int32_t> selected = {};
  float* scores = nullptr;  // [score_rows, max_visible]
  int score_rows = 0;
};
// After prepare_rows(), where there is something to choose.
void select_rows(const Launch& launch, const SelectParams& p);

// prepare.cu: everything small between the projections and attention, together.
struct PrepareParams {
  bool has_heads = false;
  bool has_index = false;
  bool has_entries = false;
  bool has_select = false;
  bool selects_all = false;  // no row sees more entries than it may choose
  HeadParams heads = {};
  CompressParams index = {};
  CompressParams entries = {};
  SelectParams select = {};  // the rotation of queries only
};
void prepare_rows(const Launch& launch, const PrepareParams& p, int rows);

struct AttendParams {
  CacheParams cache = {};
  int heads = 0;
  int dim = 0;
  int rope = 0;
  int max_keys = 0;  // bound of the keys of one row
  const float* sinks = nullptr;
  View<const float> q = {};
  View<const float> kv = {};
  View<const int32_t> selected = {};  // data null: all visible entries
  int topk = 0;
  View<float> context = {};
  QuantRows q_context = {};
  float* partials = nullptr;        // [rows, splits, heads, dim]
  float2* partial_stats = nullptr;  // [rows, splits, heads]: largest score, sum
  int splits = 1;
};
void attend_rows(const Launch& launch, const AttendParams& p);
void store_ring_rows(const Launch& launch, const AttendParams& p);
void rotate_step_rows(const Launch& launch, int rows, int rope, const int32_t* positions, const float* plain,
                      const float* compressed, float2* plain_out, float2* compressed_out);

// --- experts.cu --------------------------------------------------------------------------------------------------
struct RouteParams {
  int rows = 0;
  int experts = 0;
  int used = 0;
  float scale = 0.0F;
  View<const float> logits = {};
  const float* bias = nullptr;
  const int32_t* token_table = nullptr;  // [V, used]
  const int32_t* tokens = nullptr;
  View<int32_t> ids = {};
  View<float> weights = {};
};
void route_rows(const Launch& launch, const RouteParams& p);
// The router's product and the choice in one launch. arrived: [rows], zeros, and zeros again afterwards.
[[nodiscard]] bool can_score_and_route(const DeviceWeight& gate, int rows);
void score_and_route_rows(const Launch& launch, const RouteParams& p, const DeviceWeight& gate, View<const float> x,
                          int* arrived);

struct ExpertParams {
  int rows = 0;
  int used = 0;
  float limit = 0.0F;
  float shared_limit = 0.0F;
  DeviceWeight gate = {};
  DeviceWeight up = {};
  DeviceWeight down = {};
  DeviceWeight shared_gate = {};
  DeviceWeight shared_up = {};
  DeviceWeight shared_down = {};
  View<const int32_t> ids = {};
  View<const float> weights = {};
  View<const float> x = {};
  QuantRows xq = {};
  View<float> hidden = {};  // [rows * (used + 1), stride]
  QuantRows hidden_q = {};
  View<float> y = {};
  bool adds = false;  // to what y holds
};
void experts_few_rows(const Launch& launch, const ExpertParams& p);
// Several rows: pairs (row, choice) grouped by expert in tiles of up to kExpertTile, each expert's weights read once
// for a tile. out: [rows * used, hidden], by pair. p.hidden_q: [rows * used, ffn].
constexpr int kExpertTile = 4;
[[nodiscard]] bool can_group_few_rows(const ExpertParams& p);
void experts_grouped(const Launch& launch, const ExpertParams& p, const RowTile* tiles, const int32_t* n_tiles,
                     int max_tiles, const int32_t* pairs, float* out);
// q = swiglu(gate, up), [rows, cols].
void swiglu_rows(const Launch& launch, int rows, View<const float> gate, View<const float> up, float limit,
                 QuantRows q);
// Router and experts together: p.ids and p.weights are what the router writes.
[[nodiscard]] bool can_route_with_shared(const DeviceWeight& gate, const ExpertParams& p);
void route_with_experts(const Launch& launch, const RouteParams& route, const DeviceWeight& gate, ExpertParams p,
                        int* arrived);

}  // namespace fathom::cuda
