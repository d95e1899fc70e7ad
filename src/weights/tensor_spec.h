// One tensor of a model as it should be: what binding expects in a file, and what a writer puts there.
#pragma once

#include <cstdint>
#include <string>

#include "core/dtype.h"

namespace fathom {

struct TensorSpec {
  enum class Kind : uint8_t {
    kVector,   // [in]
    kMatrix,   // [out, in]
    kExperts,  // [count, out, in]
    kIdTable,  // [out, in] integers
  };

  std::string name;  // canonical
  Kind kind = Kind::kVector;
  int count = 1;
  int out_dim = 1;
  int in_dim = 0;
  DType dtype = DType::kF32;

  [[nodiscard]] uint64_t slice_bytes() const { return dtype_row_bytes(dtype, in_dim) * static_cast<uint64_t>(out_dim); }
  [[nodiscard]] uint64_t n_bytes() const { return slice_bytes() * static_cast<uint64_t>(count); }
};

}  // namespace fathom
