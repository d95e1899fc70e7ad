#include "weights/gguf_source.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <limits>
#include <utility>

#include "core/check.h"
#include "core/error.h"
#include "core/printable.h"

namespace fathom {
namespace {

class GgufSource final : public WeightSource {
 public:
  explicit GgufSource(GgufFile file) : file_(std::move(file)) {
    for (const GgufTensor& tensor : file_.tensors()) {
      add(tensor);
    }
  }

  [[nodiscard]] const std::string& path() const noexcept override { return file_.path(); }
  [[nodiscard]] const GgufFile* gguf() const noexcept override { return &file_; }

 protected:
  void release_bytes(std::span<const std::byte> bytes) const override { file_.release(bytes); }

 private:
  // A vector, a matrix [out, in], or a stack of matrices.
  void add(const GgufTensor& tensor) {
    const auto [in_dim, out_dim, n_slices, rest] = tensor.dims;
    constexpr auto kMaxDim = static_cast<uint64_t>(std::numeric_limits<int>::max());
    constexpr uint64_t kMaxSlices = 1 << 16;  // experts; each takes memory of its own, whatever its size in the file
    if (rest != 1 || in_dim > kMaxDim || out_dim > kMaxDim || n_slices > kMaxSlices) {
      throw Error(ErrorCode::kUnsupported,
                  fmt::format("{}: tensor {}: dimensions [{}], expected at most [{}, {}, {}]", file_.path(),
                              printable(tensor.name), fmt::join(tensor.dims, ", "), kMaxDim, kMaxDim, kMaxSlices));
    }
    Weight weight;
    weight.dtype = tensor.dtype;
    weight.out_dim = static_cast<int>(out_dim);
    weight.in_dim = static_cast<int>(in_dim);
    const size_t slice_bytes = tensor.bytes.size() / n_slices;
    std::vector<WeightSlice> slices(n_slices);
    for (size_t i = 0; i < slices.size(); ++i) {
      slices[i].codes = tensor.bytes.data() + i * slice_bytes;
    }
    FATHOM_CHECK(add_tensor(std::string(tensor.name), weight, std::move(slices)), "GgufFile refuses duplicates");
  }

  GgufFile file_;
};

}  // namespace

std::unique_ptr<WeightSource> open_gguf_source(const std::string& path) {
  return make_gguf_source(GgufFile::open(path));
}

std::unique_ptr<WeightSource> make_gguf_source(GgufFile file) { return std::make_unique<GgufSource>(std::move(file)); }

}  // namespace fathom
