#include "backend/cpu/isa/vec_scalar.h"
// The vectors come first.
#include "backend/cpu/isa/attention_impl.h"

namespace fathom::cpu {

const AttentionKernels kAttentionScalar = kAttentionKernels;

}  // namespace fathom::cpu
