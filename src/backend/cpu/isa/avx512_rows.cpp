#include "backend/cpu/isa/vec_avx512.h"
// The vectors come first.
#include "backend/cpu/isa/rows_impl.h"

namespace fathom::cpu {

const RowKernels kRowAvx512 = kRowKernels;

}  // namespace fathom::cpu
