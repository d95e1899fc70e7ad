#include "backend/cpu/isa/vec_scalar.h"
// The vectors come first.
#include "backend/cpu/isa/rows_impl.h"

namespace fathom::cpu {

const RowKernels kRowScalar = kRowKernels;

}  // namespace fathom::cpu
