// Weights made from numbers, for tests of ops.
#pragma once

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "core/weight.h"

namespace fathom::test {

// Owns the bytes behind a Weight. Copies of `weight()` are valid as long as this lives.
class OwnedWeight {
 public:
  // F32, [count, out, in].
  OwnedWeight(std::string name, int out, int in, std::vector<float> values)
      : name_(std::move(name)), bytes_(values.size() * sizeof(float)), out_(out), in_(in) {
    std::memcpy(bytes_.data(), values.data(), bytes_.size());
    const size_t slice_bytes = static_cast<size_t>(out) * static_cast<size_t>(in) * sizeof(float);
    for (size_t at = 0; at < bytes_.size(); at += slice_bytes) {
      slices_.push_back({bytes_.data() + at, nullptr});
    }
  }
  // I32 table, [out, in].
  OwnedWeight(std::string name, int out, int in, std::vector<int32_t> ids)
      : name_(std::move(name)), dtype_(DType::kI32), bytes_(ids.size() * sizeof(int32_t)), out_(out), in_(in) {
    std::memcpy(bytes_.data(), ids.data(), bytes_.size());
    slices_.push_back({bytes_.data(), nullptr});
  }

  [[nodiscard]] Weight weight() const {
    return {.name = name_, .dtype = dtype_, .out_dim = out_, .in_dim = in_, .slices = slices_};
  }

 private:
  std::string name_;
  DType dtype_ = DType::kF32;
  std::vector<std::byte> bytes_;
  std::vector<WeightSlice> slices_;
  int out_;
  int in_;
};

}  // namespace fathom::test
