// A model file or directory, seen as canonical (GGUF-named) tensors over mapped memory, whatever its spelling:
// GGUF (also split), official safetensors, or safetensors saved by the Hugging Face port. Opening reads headers only;
// the bytes of weights are touched when they are used. Addresses are not aligned in general (safetensors).
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/weight.h"

namespace fathom {

class GgufFile;

class WeightSource {
 public:
  WeightSource() = default;
  virtual ~WeightSource() = default;
  WeightSource(const WeightSource&) = delete;  // tensors() points into the source
  WeightSource& operator=(const WeightSource&) = delete;

  // `path`: a GGUF file, the first file of a split, a safetensors file, or a directory of safetensors.
  // Throws Error: kIo (cannot read), kBadModel (contradicts the format), kUnsupported (tensor type).
  [[nodiscard]] static std::unique_ptr<WeightSource> open(const std::string& path);

  // Every tensor, by canonical name; views stay valid as long as the source. A tensor that belongs to no part of the
  // main model (mtp.*, nextn) or is unknown is listed under its own name: bind_weights() judges it.
  [[nodiscard]] const std::vector<Weight>& tensors() const noexcept { return tensors_; }
  // nullptr when absent.
  [[nodiscard]] const Weight* find(std::string_view canonical_name) const noexcept;

  // The bytes of `weight`, one of tensors(), are not needed soon: memory that they take and that can be read from the
  // file again is given back. They stay valid.
  void release(const Weight& weight) const;

  [[nodiscard]] virtual const std::string& path() const noexcept = 0;
  // Where config and tokenizer are read from: metadata of a GGUF (else nullptr) ...
  [[nodiscard]] virtual const GgufFile* gguf() const noexcept { return nullptr; }
  // ... or config.json and tokenizer.json beside safetensors (empty when absent).
  [[nodiscard]] virtual std::string_view config_json() const noexcept { return {}; }
  [[nodiscard]] virtual std::string_view tokenizer_json() const noexcept { return {}; }

 protected:
  // Lists a tensor with these parts; its name and slices are the source's. false: the name is already listed.
  [[nodiscard]] bool add_tensor(std::string name, const Weight& weight, std::vector<WeightSlice> slices);
  // Where bytes are mapped: gives their memory back. Bytes elsewhere are left alone.
  virtual void release_bytes(std::span<const std::byte> /*bytes*/) const {}

 private:
  struct Storage {
    std::string name;
    std::vector<WeightSlice> slices;
  };

  std::deque<Storage> storage_;  // keeps addresses
  std::vector<Weight> tensors_;
  std::unordered_map<std::string_view, size_t> index_;
};

}  // namespace fathom
