// What a build without CUDA answers.
#include "backend/ops.h"
#include "support/expect_error.h"

namespace fathom {
namespace {

TEST(MakeOps, NamesWhatThisBuildLacks) {
  EXPECT_ERROR((void)make_ops({}, {.kind = BackendKind::kCuda}), ErrorCode::kUnsupported, "this build is without CUDA");
}

}  // namespace
}  // namespace fathom
