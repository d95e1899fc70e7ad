// A model file or directory, seen as canonical (GGUF-named) tensors over mapped memory, whatever its spelling:
// GGUF (also split), official safetensors, or safetensors saved by the Hugging Face port.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/weight.h"

namespace fathom {

class GgufFile;

class WeightSource {
 public:
  virtual ~WeightSource() = default;

  // `path`: a GGUF file, the first file of a split, or a safetensors directory.
  // Throws Error: kIo (cannot read), kBadModel (contradicts the format), kUnsupported (tensor type).
  [[nodiscard]] static std::unique_ptr<WeightSource> open(const std::string& path);

  // Every tensor, by canonical name; views stay valid as long as the source. Tensors that belong to no part of the
  // main model (mtp.*, nextn) are listed under their own names.
  [[nodiscard]] virtual const std::vector<Weight>& tensors() const = 0;
  // nullptr when absent.
  [[nodiscard]] const Weight* find(std::string_view canonical_name) const;

  [[nodiscard]] virtual const std::string& path() const = 0;
  // Where config and tokenizer are read from: metadata of a GGUF (else nullptr) ...
  [[nodiscard]] virtual const GgufFile* gguf() const { return nullptr; }
  // ... or config.json and tokenizer.json beside safetensors (empty when absent).
  [[nodiscard]] virtual std::string_view config_json() const { return {}; }
  [[nodiscard]] virtual std::string_view tokenizer_json() const { return {}; }
};

}  // namespace fathom
