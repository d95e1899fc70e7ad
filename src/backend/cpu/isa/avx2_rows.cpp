#include "backend/cpu/isa/vec_avx2.h"
// The vectors come first.
#include "backend/cpu/isa/rows_impl.h"

namespace fathom::cpu {

const RowKernels kRowAvx2 = kRowKernels;

}  // namespace fathom::cpu
