#include "backend/cpu/peak.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "core/buffer.h"
#include "core/thread_pool.h"

namespace fathom::cpu {
namespace {

constexpr size_t kReadBytes = size_t{1} << 30;
constexpr size_t kReadUnit = 512;
constexpr int kPasses = 6;

const PeakKernels& peak_kernels(std::string_view isa) {
  if (isa == "amx") {
    return peak_kernels_amx();
  }
  return isa == "avx512" ? peak_kernels_avx512() : peak_kernels_avx2();
}

template <class Body>
double seconds_of(ThreadPool& pool, Body&& body) {
  const auto begin = std::chrono::steady_clock::now();
  pool.run(body);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// Of the fastest pass.
template <class Body>
double best_seconds(ThreadPool& pool, Body&& body) {
  double best = seconds_of(pool, body);
  for (int pass = 1; pass < kPasses; ++pass) {
    best = std::min(best, seconds_of(pool, body));
  }
  return best;
}

double measure_read(const PeakKernels& kernels, ThreadPool& pool) {
  HostBuffer buffer(kReadBytes, HostBuffer::HugePages::kAdvise);
  const auto part = [&](int thread) {
    const Range units = partition(kReadBytes / kReadUnit, pool.threads(), thread);
    return buffer.bytes().subspan(static_cast<size_t>(units.first) * kReadUnit,
                                  static_cast<size_t>(units.size()) * kReadUnit);
  };
  // Pages exist once they are written; not with zeros, which some machines read without going to memory.
  pool.run([&](int thread) { std::memset(part(thread).data(), 0x5A, part(thread).size()); });
  const double seconds =
      best_seconds(pool, [&](int thread) { kernels.read(part(thread).data(), part(thread).size()); });
  return static_cast<double>(kReadBytes) / seconds;
}

double measure_int8(const PeakKernels& kernels, ThreadPool& pool) {
  // Long enough that a short burst of a higher clock rate does not count.
  constexpr double kPassSeconds = 0.05;
  int64_t rounds = int64_t{1} << 16;
  while (seconds_of(pool, [&](int) { kernels.multiply(rounds); }) < kPassSeconds) {
    rounds *= 2;
  }
  const double seconds = best_seconds(pool, [&](int) { kernels.multiply(rounds); });
  return static_cast<double>(rounds * kernels.operations_per_round) * pool.threads() / seconds;
}

}  // namespace

CpuPeaks measure_peaks(std::string_view isa, int threads) {
  const PeakKernels& kernels = peak_kernels(isa);
  ThreadPool pool({.threads = threads});
  return {measure_read(kernels, pool), measure_int8(kernels, pool)};
}

}  // namespace fathom::cpu
