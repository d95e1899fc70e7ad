#include "quant/synthetic_source.h"

#include <map>
#include <tuple>

#include "core/buffer.h"
#include "core/check.h"
#include "quant/random_weights.h"

namespace fathom {
namespace {

class SyntheticSource final : public WeightSource {
 public:
  SyntheticSource(const std::vector<TensorSpec>& tensors, SyntheticMemory memory, RandomWeights& weights,
                  ThreadPool& pool) {
    for (const TensorSpec& spec : tensors) {
      add(spec, memory == SyntheticMemory::kShared, weights, pool);
    }
  }

  [[nodiscard]] const std::string& path() const noexcept override { return path_; }

 private:
  using Key = std::tuple<DType, int, int, float>;

  void add(const TensorSpec& spec, bool shared, RandomWeights& weights, ThreadPool& pool) {
    const bool is_matrix = spec.kind == TensorSpec::Kind::kMatrix || spec.kind == TensorSpec::Kind::kExperts;
    shared = shared && is_matrix;
    const std::byte* codes = nullptr;
    if (shared) {
      const std::byte*& known = shared_[{spec.dtype, spec.out_dim, spec.in_dim, weight_scale(spec)}];
      if (known == nullptr) {
        known = make(spec, spec.slice_bytes(), weights, pool);
      }
      codes = known;
    } else {
      codes = make(spec, spec.n_bytes(), weights, pool);
    }
    Weight weight;
    weight.dtype = spec.dtype;
    weight.out_dim = spec.out_dim;
    weight.in_dim = spec.in_dim;
    std::vector<WeightSlice> slices(static_cast<size_t>(spec.count));
    for (size_t i = 0; i < slices.size(); ++i) {
      slices[i].codes = codes + (shared ? 0 : i * spec.slice_bytes());
    }
    FATHOM_CHECK(add_tensor(spec.name, weight, std::move(slices)), "names of a list are distinct");
  }

  const std::byte* make(const TensorSpec& spec, uint64_t n_bytes, RandomWeights& weights, ThreadPool& pool) {
    HostBuffer& buffer = buffers_.emplace_back(n_bytes);
    weights.fill(spec, 0, buffer.bytes(), pool);
    return buffer.bytes().data();
  }

  std::string path_ = "synthetic";
  std::vector<HostBuffer> buffers_;
  std::map<Key, const std::byte*> shared_;
};

}  // namespace

std::unique_ptr<WeightSource> make_synthetic_source(const std::vector<TensorSpec>& tensors, SyntheticMemory memory,
                                                    RandomWeights& weights, ThreadPool& pool) {
  return std::make_unique<SyntheticSource>(tensors, memory, weights, pool);
}

}  // namespace fathom
