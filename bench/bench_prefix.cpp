// What a cached turn costs beside its new tokens: going on behind a prefix of 100,000 tokens, leaving an anchor, and
// reading the prefix from disk. No weights and no steps: rows are zeros, which costs the same.
#include <benchmark/benchmark.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "backend/ops.h"
#include "cache/prefix_cache.h"
#include "cache/step_transaction.h"
#include "model/shapes.h"
#include "support/temp_dir.h"

namespace fathom {
namespace {

constexpr int kTokens = 100'000;
constexpr size_t kPlenty = size_t{64} << 30;

struct Cache {
  explicit Cache(const char* shape)
      : ops(make_ops(named_shape(shape), {.kind = BackendKind::kCpu, .cache = {.kv_type = KvType::kPacked}})),
        pool(*ops, {.max_context = kTokens + 1000, .max_slots = 4, .max_blocks = 2000}),
        prefixes(pool, kPlenty),
        tokens(kTokens + 1) {
    std::iota(tokens.begin(), tokens.end(), 0);
  }

  void use_disk(const std::string& dir) {
    PrefixStoreOptions options;
    options.dir = dir;
    options.max_queued_bytes = kPlenty;
    prefixes.use_store(std::make_unique<PrefixStore>(pool.layout(), options));
  }

  void advance(SequenceCache& sequence, int n) {
    StepTransaction step(pool);
    step.add(sequence, n);
    step.begin();
    step.commit();
  }

  // Everything up to `kTokens`, with an anchor at every 2,048.
  void compute() {
    SequenceCache sequence(pool);
    while (sequence.position() < kTokens) {
      advance(sequence, std::min(2048, kTokens - sequence.position()));
      prefixes.keep(std::span(tokens).first(static_cast<size_t>(sequence.position())), sequence);
    }
  }

  std::unique_ptr<Ops> ops;
  CachePool pool;
  PrefixCache prefixes;
  std::vector<TokenId> tokens;
};

void resume(benchmark::State& state, const char* shape) {
  Cache cache(shape);
  cache.compute();
  SequenceCache sequence(cache.pool);
  for (auto _ : state) {
    benchmark::DoNotOptimize(cache.prefixes.match(cache.tokens));
    benchmark::DoNotOptimize(cache.prefixes.resume(cache.tokens, sequence));
  }
  state.counters["anchor_bytes"] = static_cast<double>(cache.prefixes.stats().bytes);
}

void keep(benchmark::State& state, const char* shape) {
  Cache cache(shape);
  cache.compute();
  SequenceCache sequence(cache.pool);
  cache.prefixes.resume(cache.tokens, sequence);
  for (auto _ : state) {
    state.PauseTiming();
    cache.advance(sequence, 1);
    cache.tokens.push_back(1);
    state.ResumeTiming();
    cache.prefixes.keep(std::span(cache.tokens).first(static_cast<size_t>(sequence.position())), sequence);
  }
}

void load(benchmark::State& state, const char* shape) {
  const test::TempDir dir;
  {
    Cache cache(shape);
    cache.use_disk(dir.path().string());
    cache.compute();
  }
  for (auto _ : state) {
    state.PauseTiming();
    {
      Cache cache(shape);
      cache.use_disk(dir.path().string());
      SequenceCache sequence(cache.pool);
      state.ResumeTiming();
      benchmark::DoNotOptimize(cache.prefixes.resume(cache.tokens, sequence));
      state.PauseTiming();
      state.counters["read_bytes"] = static_cast<double>(cache.prefixes.stats().disk->bytes_read);
    }
    state.ResumeTiming();
  }
}

BENCHMARK_CAPTURE(resume, mid, "mid")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(resume, flash, "flash")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(keep, mid, "mid")->Unit(benchmark::kMillisecond)->Iterations(20);
BENCHMARK_CAPTURE(keep, flash, "flash")->Unit(benchmark::kMillisecond)->Iterations(20);
BENCHMARK_CAPTURE(load, mid, "mid")->Unit(benchmark::kMillisecond)->Iterations(3);
BENCHMARK_CAPTURE(load, flash, "flash")->Unit(benchmark::kMillisecond)->Iterations(3);

}  // namespace
}  // namespace fathom
