#include "backend/numerics.h"

#include <string_view>

#include "backend/cpu/kernels.h"

namespace fathom {

std::string numerics_of(const BackendOptions& options) {
  if (options.kind != BackendKind::kCpu && options.kind != BackendKind::kAuto) {
    return std::string(backend_name(options.kind));
  }
  // All tables give the same bits, but for attention on AMX tiles. The number changes when the arithmetic does.
  constexpr std::string_view kAmx = "amx";
  return cpu::select_kernels(options.isa).isa == kAmx ? "cpu 2 amx" : "cpu 2";
}

}  // namespace fathom
