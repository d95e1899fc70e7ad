// A model ready to run: owns the mapped file, the backend with its weights, the cache pool and the scratch of one step.
// The layer below the scheduler, for callers that decide themselves what each step holds (logits, perplexity, tests).
// Used by one thread at a time.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backend/ops.h"
#include "cache/cache_pool.h"
#include "cache/sequence_cache.h"
#include "model/forward.h"
#include "model/model.h"
#include "weights/weight_source.h"

namespace fathom {

struct RunnerConfig {
  std::string model_path;
  BackendOptions backend;  // backend.max_rows bounds the rows of one step
  int max_context = 0;     // positions of one sequence; 0: what the model was trained for
  int max_sequences = 1;
  int max_snapshots = 0;   // slots beyond the live sequences'
  size_t cache_bytes = 0;  // limit of the blocks of all sequences together; 0: enough for all at full context
  // What sequences may leave behind for later ones (prefix_cache.h). With cache_bytes their blocks are within it and
  // give way to those of live sequences; else they come on top. 0: nothing is kept.
  size_t prefix_bytes = 0;
  int max_logits = 0;  // rows of one step whose logits may be asked for; 0: backend.max_rows
};

// What one sequence adds in a step: `tokens` follow its committed rows. Logits are computed for the last `n_logits` of
// them (0 to all).
struct StepInput {
  SequenceCache* sequence;
  std::span<const TokenId> tokens;
  int n_logits = 1;
};

class ModelRunner {
 public:
  // Maps the file, checks it, uploads the weights. Throws what the parts throw (kIo, kBadModel, kUnsupported,
  // kOutOfMemory, kDevice), and kBadRequest for a limit that this model or machine cannot have.
  [[nodiscard]] static std::unique_ptr<ModelRunner> open(const RunnerConfig& config);

  // The same from parts, for tests that bring or decorate a backend. `config.model_path` is not read.
  ModelRunner(std::unique_ptr<WeightSource> source, const ModelConfig& model, std::unique_ptr<Ops> ops,
              const RunnerConfig& config);
  ModelRunner(const ModelRunner&) = delete;
  ModelRunner& operator=(const ModelRunner&) = delete;

  [[nodiscard]] const WeightSource& source() const { return *source_; }
  [[nodiscard]] const ModelConfig& model_config() const { return model_.config; }
  [[nodiscard]] Ops& ops() { return *ops_; }
  [[nodiscard]] CachePool& pool() { return pool_; }
  [[nodiscard]] const CachePool& pool() const { return pool_; }
  [[nodiscard]] int vocab() const { return model_.config.vocab; }
  [[nodiscard]] int max_context() const { return pool_.limits().max_context; }
  // Of the pool's blocks, those kept free for copies that steps make for a moment.
  [[nodiscard]] int blocks_for_copies() const { return blocks_for_copies_; }
  [[nodiscard]] int max_rows() const { return max_rows_; }
  [[nodiscard]] int max_logits() const { return max_logits_; }

  // An empty sequence; must not outlive the runner. Throws kCacheFull.
  [[nodiscard]] SequenceCache make_sequence() { return SequenceCache(pool_); }

  // One step over different sequences, published all or none. Returns the wanted logits [sum of n_logits, V] in the
  // order of `inputs`, valid until the next step.
  // Throws before anything ran, leaving all sequences as they were: kBadRequest (a token outside the vocabulary, more
  // rows or logits than a step holds), and what StepTransaction::add throws. Throws while it runs, poisoning all of
  // them: what the backend throws.
  HostMat<const float> run(std::span<const StepInput> inputs);

  // Feeds all `tokens` of one sequence in steps of `chunk` rows, or fewer where max_rows or, with `on_logits`,
  // max_logits asks for it. `on_logits` gets the position of a step's first row and the logits of all its rows.
  void feed(SequenceCache& sequence, std::span<const TokenId> tokens, int chunk,
            const std::function<void(int position, HostMat<const float> logits)>& on_logits = {});

 private:
  void gather(std::span<const StepInput> inputs);

  std::unique_ptr<WeightSource> source_;
  std::unique_ptr<Ops> ops_;
  Model model_;
  CachePool pool_;
  int blocks_for_copies_;
  int max_rows_;
  int max_logits_;
  Scratch scratch_;
  // Reused from step to step.
  std::vector<float> logits_;  // [most logits of a step so far, V]
  std::vector<TokenId> tokens_;
  std::vector<int32_t> logit_rows_;
};

}  // namespace fathom
