#include "backend/cpu/isa/vec_avx2.h"
// The vectors come first.
#include "backend/cpu/isa/attention_impl.h"

namespace fathom::cpu {

const AttentionKernels kAttentionAvx2 = kAttentionKernels;

}  // namespace fathom::cpu
