#include "backend/cpu/isa/vec_avx512.h"
// The vectors come first.
#include "backend/cpu/isa/attention_impl.h"

namespace fathom::cpu {

const AttentionKernels kAttentionAvx512 = kAttentionKernels;

}  // namespace fathom::cpu
