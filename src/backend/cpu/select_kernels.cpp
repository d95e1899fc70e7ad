#include <cpuid.h>
#include <fmt/format.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>

#include "backend/cpu/kernels.h"
#include "core/error.h"

namespace fathom::cpu {
namespace {

// Linux hands the tile registers out on request only.
bool request_amx() {
  constexpr long kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr long kTileData = 18;               // XFEATURE_XTILEDATA
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

struct CpuId {
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
};

// All zero where the CPU does not know the leaf.
CpuId cpu_id(unsigned leaf) {
  CpuId id;
  __get_cpuid_count(leaf, 0, &id.eax, &id.ebx, &id.ecx, &id.edx);
  return id;
}

bool has_avx2() {
  constexpr unsigned kF16c = 1U << 29;  // clang 14 knows no name for it
  return __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0 && (cpu_id(1).ecx & kF16c) != 0;
}

bool has_avx512() {
  return has_avx2() && __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
         __builtin_cpu_supports("avx512vl") != 0 && __builtin_cpu_supports("avx512dq") != 0 &&
         __builtin_cpu_supports("avx512vnni") != 0 && __builtin_cpu_supports("avx512vbmi") != 0;
}

bool has_amx() {
  constexpr unsigned kTiles = 3U << 24 | 1U << 22;  // AMX-TILE, AMX-INT8 and AMX-BF16
  return has_avx512() && __builtin_cpu_supports("avx512bf16") != 0 && (cpu_id(7).edx & kTiles) == kTiles &&
         request_amx();
}

struct Entry {
  const CpuKernels& (*table)() noexcept;
  bool (*supported)();
};

// Best first.
constexpr std::array<Entry, 4> kTables = {
    {{kernels_amx, has_amx}, {kernels_avx512, has_avx512}, {kernels_avx2, has_avx2}, {kernels_scalar, has_avx2}}};

}  // namespace

const CpuKernels& select_kernels(std::string_view forced_isa) {
  for (const Entry& entry : kTables) {
    const CpuKernels& table = entry.table();
    if (!forced_isa.empty() && forced_isa != table.isa) {
      continue;
    }
    if (entry.supported()) {
      return table;
    }
    if (!forced_isa.empty()) {
      throw Error(ErrorCode::kUnsupported, fmt::format("isa {}: this CPU does not have it", forced_isa));
    }
  }
  throw Error(ErrorCode::kUnsupported, forced_isa.empty()
                                           ? std::string("cpu backend: needs AVX2, FMA and F16C, which this CPU lacks")
                                           : fmt::format("isa {}: expected scalar, avx2, avx512 or amx", forced_isa));
}

}  // namespace fathom::cpu
