// Logits of a text kept for comparison: a safetensors file with `window` I32 [1] (tokens of the text that a model saw
// together, at most), `tokens` I32 [n] (what each row predicts) and `logits` F32 [n, vocab].
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/atomic_file.h"
#include "core/dtype.h"
#include "safetensors/safetensors_file.h"

namespace fathom::cli {

// Owns the file, which appears when commit() is called.
class SavedLogitsWriter {
 public:
  // Throws Error kIo.
  SavedLogitsWriter(const std::string& path, int window, std::span<const TokenId> tokens, int vocab);

  void append(std::span<const float> row);  // throws kIo
  // Throws kIo. Precondition: one row for each token was appended.
  void commit();

 private:
  AtomicFile file_;
  uint64_t missing_;  // values
};

// Owns the mapped file.
class SavedLogits {
 public:
  // Throws Error: kIo, kBadModel (no such file of logits), kBadRequest (of another window, other tokens or another
  // vocabulary).
  SavedLogits(const std::string& path, int window, std::span<const TokenId> tokens, int vocab);

  // Copies row `i`; the file's own bytes need not be aligned.
  void read_row(size_t i, std::span<float> row) const;

 private:
  SafetensorsFile file_;
  std::span<const std::byte> logits_;
};

}  // namespace fathom::cli
