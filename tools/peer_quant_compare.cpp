// Compares the quality and speed of our encoders with ggml's: error of the decoded values relative to the values, and
// time, on random values.
//
//   peer_quant_compare LIBGGML_BASE.so [TYPE]
//
// Built only where FATHOM_PEER_DIR names an installation of llama.cpp with its headers (CMakeLists.txt of this folder).
#include <dlfcn.h>
#include <fmt/format.h>
#include <ggml.h>

#include <cmath>
#include <ctime>
#include <optional>
#include <random>
#include <vector>

#include "quant/quantize.h"
#include "weights/dequantize.h"

namespace {

using namespace fathom;  // NOLINT(google-build-using-namespace): a tool of one file

using QuantizeChunk = size_t (*)(ggml_type, const float*, void*, int64_t, int64_t, int64_t, const float*);

constexpr int64_t kCols = 4096;
constexpr int64_t kRows = 16;

struct Sample {
  const char* name;
  std::vector<float> values;
};

std::vector<Sample> make_samples() {
  std::mt19937 rng(1);
  std::normal_distribution<float> normal(0.0F, 0.02F);
  std::student_t_distribution<float> heavy_tailed(4.0F);
  Sample gaussian{"normal", std::vector<float>(kCols * kRows)};
  Sample heavy{"student-t(4)", std::vector<float>(kCols * kRows)};
  for (float& v : gaussian.values) {
    v = normal(rng);
  }
  for (float& v : heavy.values) {
    v = 0.02F * heavy_tailed(rng);
  }
  return {gaussian, heavy};
}

double relative_error(DType dtype, const std::vector<float>& x, const std::vector<std::byte>& bytes) {
  std::vector<float> y(x.size());
  dequantize_row(dtype, bytes.data(), y.data(), static_cast<int64_t>(x.size()));
  double error = 0;
  double energy = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    error += std::pow(static_cast<double>(x[i]) - y[i], 2);
    energy += static_cast<double>(x[i]) * x[i];
  }
  return std::sqrt(error / energy);
}

template <class Encode>
double nanoseconds_per_value(Encode encode) {
  const std::clock_t start = std::clock();  // processor time: other load on the machine does not count
  encode();
  const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  return seconds * 1e9 / static_cast<double>(kCols * kRows);
}

void compare(const DTypeInfo& info, const Sample& sample, QuantizeChunk peer_quantize) {
  std::vector<std::byte> ours(dtype_row_bytes(info.dtype, kCols * kRows));
  std::vector<std::byte> theirs(ours.size());
  const std::vector<float> ones(kCols, 1.0F);
  const double our_time =
      nanoseconds_per_value([&] { quantize_row(info.dtype, sample.values.data(), ours.data(), kCols * kRows); });
  const double their_time = nanoseconds_per_value([&] {
    peer_quantize(static_cast<ggml_type>(info.ggml_type), sample.values.data(), theirs.data(), 0, kRows, kCols,
                  ones.data());
  });
  fmt::print(
      "{:8} {:13} error ours {:.5f} ggml {:.5f} ({:+.1f} %)   ns/value ours {:.1f} ggml {:.1f}\n", info.name,
      sample.name, relative_error(info.dtype, sample.values, ours), relative_error(info.dtype, sample.values, theirs),
      100.0 *
          (relative_error(info.dtype, sample.values, ours) / relative_error(info.dtype, sample.values, theirs) - 1.0),
      our_time, their_time);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    fmt::print(stderr, "usage: peer_quant_compare LIBGGML_BASE.so [TYPE]\n");
    return 2;
  }
  void* library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    fmt::print(stderr, "{}\n", dlerror());
    return 1;
  }
  const auto quantize = reinterpret_cast<QuantizeChunk>(dlsym(library, "ggml_quantize_chunk"));
  const auto init = reinterpret_cast<void (*)(ggml_type)>(dlsym(library, "ggml_quantize_init"));
  const std::optional<DType> only = argc > 2 ? dtype_from_name(argv[2]) : std::nullopt;
  for (const DTypeInfo& info : all_dtypes()) {
    const bool has_encoder = info.ggml_type >= 0 && info.block_size > 1;
    if (!has_encoder || (only && *only != info.dtype)) {
      continue;
    }
    init(static_cast<ggml_type>(info.ggml_type));
    for (const Sample& sample : make_samples()) {
      compare(info, sample, quantize);
    }
  }
  return 0;
}
