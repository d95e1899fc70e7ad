#include "weights/id_table.h"

#include <fmt/format.h>

#include <cstring>

#include "core/check.h"
#include "core/error.h"

namespace fathom {

std::vector<int32_t> read_id_table(const Weight& weight, int limit) {
  FATHOM_CHECK(weight.dtype == DType::kI32 || weight.dtype == DType::kI64, "only integer tables are id tables");
  const size_t size = dtype_row_bytes(weight.dtype, 1);
  const std::byte* bytes = weight.slices[0].codes;
  std::vector<int32_t> table(static_cast<size_t>(weight.out_dim) * static_cast<size_t>(weight.in_dim));
  for (size_t i = 0; i < table.size(); ++i) {
    int64_t id = 0;
    if (weight.dtype == DType::kI32) {
      int32_t narrow = 0;
      std::memcpy(&narrow, bytes + i * size, size);
      id = narrow;
    } else {
      std::memcpy(&id, bytes + i * size, size);
    }
    if (id < 0 || id >= limit) {
      const auto columns = static_cast<size_t>(weight.in_dim);
      throw Error(ErrorCode::kBadModel, fmt::format("{}: row {} column {} is {}, expected 0 to {}", weight.name,
                                                    i / columns, i % columns, id, limit - 1));
    }
    table[i] = static_cast<int32_t>(id);
  }
  return table;
}

}  // namespace fathom
