#include "cli/bench.h"

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <memory>

#include "backend/cpu/kernels.h"
#include "backend/cpu/peak.h"
#include "backend/profiling_ops.h"
#include "cli/bench_report.h"
#include "cli/bench_work.h"
#include "cli/exit_code.h"
#include "cli/text_io.h"
#include "core/cpu_count.h"
#include "core/printable.h"
#include "engine/model_runner.h"
#include "model/config_reader.h"
#include "quant/random_weights.h"
#include "quant/synthetic_source.h"
#include "sampling/random.h"
#include "weights/weight_size.h"

namespace fathom::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr uint64_t kSeed = 1;
constexpr int kWarmUpSteps = 2;  // of decoding

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

struct Source {
  ModelConfig config;
  std::unique_ptr<WeightSource> weights;
};

// Backends that make their own copy of the weights leave the source small.
Source open_source(const BenchOptions& options) {
  if (options.synthetic.shape.empty()) {
    std::unique_ptr<WeightSource> weights = WeightSource::open(model_path(options.model.model));
    ModelConfig config = read_config(*weights);
    return {std::move(config), std::move(weights)};
  }
  SyntheticModel model = plan_synthetic(options.synthetic);
  ThreadPool pool({.threads = default_thread_count()});
  RandomWeights random(kSeed, model.config.n_experts);
  auto weights = make_synthetic_source(model.tensors, SyntheticMemory::kShared, random, pool);
  return {std::move(model.config), std::move(weights)};
}

RunnerConfig bench_config(const BenchOptions& options) {
  RunnerConfig config;
  config.backend = backend_options(options.model);
  config.backend.max_rows = std::max(options.chunk, options.seqs);
  const int longest = *std::ranges::max_element(options.prompts);
  config.max_context = options.depth + std::max(longest, options.gen + kWarmUpSteps);
  config.max_sequences = options.seqs + 1;  // one stays at `depth` for the others to start from
  config.max_logits = options.seqs;
  return config;
}

// The same tokens in every run: the rows of random models differ in the experts they choose.
std::vector<TokenId> random_tokens(int n, int vocab, uint64_t stream) {
  std::vector<TokenId> tokens(static_cast<size_t>(n));
  for (size_t i = 0; i < tokens.size(); ++i) {
    tokens[i] = static_cast<TokenId>(uniform_at(stream, i) * vocab);
  }
  return tokens;
}

// As a request does it: logits of the last token only.
void prefill(ModelRunner& runner, SequenceCache& sequence, std::span<const TokenId> tokens, int chunk) {
  while (!tokens.empty()) {
    const std::span<const TokenId> part = tokens.first(std::min(static_cast<size_t>(chunk), tokens.size()));
    tokens = tokens.subspan(part.size());
    const StepInput input{.sequence = &sequence, .tokens = part, .n_logits = tokens.empty() ? 1 : 0};
    runner.run({&input, 1});
  }
}

Rates measure_prefill(ModelRunner& runner, const SequenceCache& base, int n, const BenchOptions& options) {
  const std::vector<TokenId> tokens = random_tokens(n, runner.vocab(), 1);
  Rates rates;
  for (int run = 0; run < options.repeat; ++run) {
    SequenceCache sequence = base.fork();
    const auto begin = Clock::now();
    prefill(runner, sequence, tokens, options.chunk);
    rates.add(n / seconds_since(begin));
  }
  return rates;
}

void decode(ModelRunner& runner, std::vector<SequenceCache>& sequences, int n_steps) {
  const auto n_sequences = static_cast<int>(sequences.size());
  const std::vector<TokenId> tokens = random_tokens(n_steps * n_sequences, runner.vocab(), 2);
  std::vector<StepInput> inputs(sequences.size());
  for (size_t step = 0; step < static_cast<size_t>(n_steps); ++step) {
    for (size_t i = 0; i < sequences.size(); ++i) {
      inputs[i] = {.sequence = &sequences[i],
                   .tokens = std::span(tokens).subspan(step * sequences.size() + i, 1),
                   .n_logits = 1};
    }
    runner.run(inputs);
  }
}

// All sequences together.
Rates measure_decode(ModelRunner& runner, const SequenceCache& base, const BenchOptions& options) {
  Rates rates;
  for (int run = 0; run < options.repeat; ++run) {
    std::vector<SequenceCache> sequences;
    sequences.reserve(static_cast<size_t>(options.seqs));
    for (int i = 0; i < options.seqs; ++i) {
      sequences.push_back(base.fork());
    }
    decode(runner, sequences, kWarmUpSteps);
    const auto begin = Clock::now();
    decode(runner, sequences, options.gen);
    rates.add(options.gen * options.seqs / seconds_since(begin));
  }
  return rates;
}

uint64_t peak_rss_bytes() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<uint64_t>(usage.ru_maxrss) * 1024;
}

void describe_model(const WeightSource& weights, const ModelConfig& config, int seqs, BenchReport& report) {
  report.model = printable(config.name);
  report.layers = config.n_layers;
  for (const Weight& w : weights.tensors()) {
    report.parameters += w.dtype == DType::kI32 || w.dtype == DType::kI64 ? 0 : weight_elements(w);
    report.weight_bytes += weight_bytes(w);
  }
  const TokenWork work = count_work(weights, config, seqs);
  report.bytes_per_token = work.weight_bytes;
  report.operations_per_token = work.operations;
}

// The model is gone again when this returns, so that measuring the machine has its memory.
void measure_model(const BenchOptions& options, BenchReport& report) {
  Source source = open_source(options);
  describe_model(*source.weights, source.config, options.seqs, report);
  const RunnerConfig config = bench_config(options);
  std::unique_ptr<Ops> ops = make_ops(source.config, config.backend);
  report.backend = ops->name();
  ProfilingOps* profiler = nullptr;
  if (options.profile) {
    auto profiling = std::make_unique<ProfilingOps>(std::move(ops));
    profiler = profiling.get();
    ops = std::move(profiling);
  }
  const auto take_profile = [&] { return profiler != nullptr ? profiler->take() : std::vector<OpProfile>{}; };
  ModelRunner runner(std::move(source.weights), source.config, std::move(ops), config);

  SequenceCache base = runner.make_sequence();
  prefill(runner, base, random_tokens(options.depth, runner.vocab(), 0), options.chunk);
  {
    SequenceCache warm_up = base.fork();
    const int n = std::min(options.chunk, config.max_context - options.depth);
    prefill(runner, warm_up, random_tokens(n, runner.vocab(), 1), options.chunk);
  }
  take_profile();
  for (const int n : options.prompts) {
    Prefill& result = report.prefills.emplace_back();
    result.prompt = n;
    if (n > 0) {
      result.rates = measure_prefill(runner, base, n, options);
      result.profile = take_profile();
    }
  }
  if (options.gen > 0) {
    report.decode = measure_decode(runner, base, options);
    report.decode_profile = take_profile();
  }
}

}  // namespace

int bench(const BenchOptions& options) {
  BenchReport report;
  report.threads = options.model.threads > 0 ? options.model.threads : default_thread_count();
  report.depth = options.depth;
  report.gen = options.gen;
  report.seqs = options.seqs;
  measure_model(options, report);
  report.peak_rss_bytes = peak_rss_bytes();
  if (report.backend == "cpu") {
    report.isa = cpu::select_kernels(options.model.isa).isa;
    const cpu::CpuPeaks peaks = cpu::measure_peaks(report.isa, report.threads);
    report.read_bytes_per_s = peaks.read_bytes_per_s;
    report.int8_operations_per_s = peaks.int8_operations_per_s;
  }
  write_stdout(options.json ? format_bench_json(report) : format_bench_table(report));
  return kExitOk;
}

}  // namespace fathom::cli
