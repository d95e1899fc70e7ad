// Compares our decoders with ggml's on random blocks, bit for bit, and records ggml's results as test data.
//
//   peer_dequant_check LIBGGML_BASE.so                check every type that both sides know
//   peer_dequant_check LIBGGML_BASE.so --record DIR   write DIR/<type>.bin and DIR/hashes.txt (tests/data/dequant)
//
// Built only where FATHOM_PEER_DIR names an installation of llama.cpp with its headers (CMakeLists.txt of this folder).
#include <dlfcn.h>
#include <fmt/format.h>
#include <ggml.h>

#include <bit>
#include <cstdio>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "support/random_blocks.h"
#include "weights/dequantize.h"

namespace {

using namespace fathom;        // NOLINT(google-build-using-namespace): a tool of one file
using namespace fathom::test;  // NOLINT(google-build-using-namespace)

using GetTraits = const ggml_type_traits* (*)(ggml_type);

std::vector<float> peer_decode(const ggml_type_traits& traits, const std::vector<std::byte>& blocks, size_t n) {
  std::vector<float> out(n);
  traits.to_float(blocks.data(), out.data(), static_cast<int64_t>(n));
  return out;
}

// Number of values that differ in any bit; the first few are printed.
size_t count_differences(const DTypeInfo& info, const std::vector<float>& ours, const std::vector<float>& theirs) {
  size_t different = 0;
  for (size_t i = 0; i < ours.size(); ++i) {
    if (std::bit_cast<uint32_t>(ours[i]) != std::bit_cast<uint32_t>(theirs[i])) {
      if (++different <= 4) {
        fmt::print("  {} value {}: ours {:a}, ggml {:a}\n", info.name, i, ours[i], theirs[i]);
      }
    }
  }
  return different;
}

void record(const std::string& dir, const DTypeInfo& info, const std::vector<std::byte>& blocks,
            const std::vector<float>& values) {
  std::ofstream file(fmt::format("{}/{}.bin", dir, info.name), std::ios::binary);
  const auto block_bytes = static_cast<size_t>(info.block_bytes);
  file.write(reinterpret_cast<const char*>(blocks.data()), static_cast<std::streamsize>(kStoredBlocks * block_bytes));
  const size_t n_stored = kStoredBlocks * static_cast<size_t>(info.block_size);
  file.write(reinterpret_cast<const char*>(values.data()), static_cast<std::streamsize>(n_stored * sizeof(float)));
  std::ofstream hashes(dir + "/hashes.txt", std::ios::app);
  hashes << fmt::format("{} {:016x}\n", info.name, hash_floats(values));
}

bool check_type(const DTypeInfo& info, const ggml_type_traits& traits, const std::string& record_dir) {
  if (dtype_from_name(traits.type_name) != info.dtype) {
    fmt::print("{}: type number {} is {} in ggml\n", info.name, info.ggml_type, traits.type_name);
    return false;
  }
  if (traits.blck_size != info.block_size || traits.type_size != static_cast<size_t>(info.block_bytes)) {
    fmt::print("{}: block of {} values in {} bytes, ggml has {} in {}\n", info.name, info.block_size, info.block_bytes,
               traits.blck_size, traits.type_size);
    return false;
  }
  if (traits.to_float == nullptr) {
    fmt::print("{}: layout agrees; ggml has no decoder to compare with\n", info.name);
    return true;
  }
  const std::vector<std::byte> blocks = random_blocks(info.dtype, kHashedBlocks, kBlockSeed);
  const size_t n = kHashedBlocks * static_cast<size_t>(info.block_size);
  const std::vector<float> theirs = peer_decode(traits, blocks, n);
  std::vector<float> ours(n);
  dequantize_row(info.dtype, blocks.data(), ours.data(), static_cast<int64_t>(n));
  const size_t different = count_differences(info, ours, theirs);
  fmt::print("{}: {} of {} values differ\n", info.name, different, n);
  if (!record_dir.empty()) {
    record(record_dir, info, blocks, theirs);
  }
  return different == 0;
}

}  // namespace

int main(int argc, char** argv) {
  const bool recording = argc == 4 && std::string_view(argv[2]) == "--record";
  if (argc != 2 && !recording) {
    fmt::print(stderr, "usage: peer_dequant_check LIBGGML_BASE.so [--record DIR]\n");
    return 2;
  }
  void* library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    fmt::print(stderr, "{}\n", dlerror());
    return 1;
  }
  const auto get_traits = reinterpret_cast<GetTraits>(dlsym(library, "ggml_get_type_traits"));
  if (get_traits == nullptr) {
    fmt::print(stderr, "{}: no ggml_get_type_traits\n", argv[1]);
    return 1;
  }
  const std::string record_dir = recording ? argv[3] : "";
  if (recording) {
    std::remove((record_dir + "/hashes.txt").c_str());
  }
  bool all_equal = true;
  for (const DTypeInfo& info : all_dtypes()) {
    if (info.ggml_type >= 0) {
      all_equal &= check_type(info, *get_traits(static_cast<ggml_type>(info.ggml_type)), record_dir);
    }
  }
  return all_equal ? 0 : 1;
}
