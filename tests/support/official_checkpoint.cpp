#include "support/official_checkpoint.h"

#include <cstring>
#include <deque>
#include <vector>

#include "quant/quantize.h"
#include "safetensors/safetensors_writer.h"
#include "weights/dequantize.h"

namespace fathom::test {
namespace {

namespace fs = std::filesystem;

bool is_expert(const std::string& name) { return name.find(".ffn.experts.") != std::string::npos; }

bool is_fp8(const std::string& name) {
  for (const char* part : {".attn.wq_a.", ".attn.wq_b.", ".attn.wkv.", ".attn.wo_a.", ".attn.wo_b.",
                           ".attn.indexer.wq_b.", ".ffn.shared_experts."}) {
    if (name.find(part) != std::string::npos) {
      return true;
    }
  }
  return false;
}

// Tensors and the bytes they point to.
struct Checkpoint {
  std::vector<SafetensorsTensor> tensors;
  std::deque<std::vector<std::byte>> bytes;

  void add(std::string name, SafetensorsDType dtype, std::vector<uint64_t> shape, std::vector<std::byte> data) {
    bytes.push_back(std::move(data));
    tensors.push_back({.name = std::move(name), .dtype = dtype, .shape = std::move(shape), .bytes = bytes.back()});
  }

  void add_quantised(const SafetensorsTensor& t, DType dtype, uint64_t scale_rows, uint64_t scale_cols) {
    const uint64_t rows = t.shape[0];
    const uint64_t cols = t.shape[1];
    std::vector<float> values(rows * cols);
    const DType source = t.dtype == SafetensorsDType::kBF16 ? DType::kBF16 : DType::kF32;
    dequantize_row(source, t.bytes.data(), values.data(), static_cast<int64_t>(values.size()));

    const std::vector<uint64_t> scale_shape{(rows + scale_rows - 1) / scale_rows, (cols + scale_cols - 1) / scale_cols};
    std::vector<std::byte> codes(dtype_row_bytes(dtype, static_cast<int64_t>(values.size())));
    std::vector<std::byte> scales(scale_shape[0] * scale_shape[1]);
    quantize_scaled(dtype, HostMat<const float>(values.data(), static_cast<int>(rows), static_cast<int>(cols)),
                    static_cast<int>(scale_rows), static_cast<int>(scale_cols), codes.data(), scales.data());

    const bool packed = dtype == DType::kF4_E2M1;
    const std::string scale_name = t.name.substr(0, t.name.size() - std::string("weight").size()) + "scale";
    add(t.name, packed ? SafetensorsDType::kI8 : SafetensorsDType::kF8_E4M3, {rows, packed ? cols / 2 : cols},
        std::move(codes));
    add(scale_name, SafetensorsDType::kF8_E8M0, scale_shape, std::move(scales));
  }
};

}  // namespace

void make_official_checkpoint(const fs::path& source, const fs::path& out) {
  fs::create_directories(out);
  fs::copy_file(source / "config.json", out / "config.json");
  const SafetensorsFile file = SafetensorsFile::open((source / "model.safetensors").string());
  Checkpoint checkpoint;
  for (const SafetensorsTensor& t : file.tensors()) {
    if (is_expert(t.name)) {
      checkpoint.add_quantised(t, DType::kF4_E2M1, 1, 32);
    } else if (is_fp8(t.name)) {
      checkpoint.add_quantised(t, DType::kF8_E4M3, 128, 128);
    } else {
      checkpoint.tensors.push_back(t);
    }
  }
  write_safetensors((out / "model.safetensors").string(), checkpoint.tensors);
}

}  // namespace fathom::test
