#include "weights/safetensors_source.h"

#include <fmt/format.h>

#include <filesystem>
#include <map>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/check.h"
#include "core/error.h"
#include "core/file_map.h"
#include "core/printable.h"
#include "weights/names.h"
#include "weights/safetensors_matrix.h"

namespace fathom {
namespace {

constexpr const char* kConfigName = "config.json";
constexpr const char* kTokenizerName = "tokenizer.json";

using Entry = SafetensorsModel::Entry;

[[noreturn]] void fail(const Entry& entry, const std::string& what) {
  throw Error(ErrorCode::kBadModel,
              fmt::format("{}: tensor {}: {}", entry.file->path(), printable(entry.tensor->name), what));
}

std::string form_text(const Weight& w) {
  const std::string matrix = fmt::format("{} [{}, {}]", dtype_info(w.dtype).name, w.out_dim, w.in_dim);
  return w.scale_rows == 0 ? matrix : fmt::format("{} with scales per {} x {}", matrix, w.scale_rows, w.scale_cols);
}

bool same_form(const Weight& a, const Weight& b) {
  return a.dtype == b.dtype && a.out_dim == b.out_dim && a.in_dim == b.in_dim && a.scale_rows == b.scale_rows &&
         a.scale_cols == b.scale_cols;
}

// The experts of one canonical tensor by index, found one by one.
using ExpertStack = std::map<int, const Entry*>;

class SafetensorsSource final : public WeightSource {
 public:
  explicit SafetensorsSource(SafetensorsModel model) : model_(std::move(model)) { add_tensors(); }

  void read_files_beside(const std::filesystem::path& directory) {
    config_ = map_if_present(directory / kConfigName);
    tokenizer_ = map_if_present(directory / kTokenizerName);
  }

  [[nodiscard]] const std::string& path() const noexcept override { return model_.path(); }
  [[nodiscard]] std::string_view config_json() const noexcept override { return text_of(config_); }
  [[nodiscard]] std::string_view tokenizer_json() const noexcept override { return text_of(tokenizer_); }

 protected:
  void release_bytes(std::span<const std::byte> bytes) const override {
    for (const SafetensorsFile& file : model_.files()) {
      file.release(bytes);
    }
  }

 private:
  static FileMap map_if_present(const std::filesystem::path& path) {
    std::error_code ignored;
    return std::filesystem::exists(path, ignored) ? FileMap(path.string()) : FileMap();
  }
  static std::string_view text_of(const FileMap& map) {
    return {reinterpret_cast<const char*>(map.bytes().data()), map.bytes().size()};
  }

  void add_tensors() {
    std::vector<std::pair<std::string, ExpertStack>> stacks;  // in file order
    std::unordered_map<std::string, size_t> stack_index;
    for (const Entry& entry : model_.tensors()) {
      const auto meaning = meaning_of_safetensors_name(entry.tensor->name);
      if (!meaning) {
        add_unknown(entry);
      } else if (meaning->content == TensorContent::kExpert) {
        const auto [found, is_new] = stack_index.emplace(meaning->name, stacks.size());
        if (is_new) {
          stacks.emplace_back(meaning->name, ExpertStack{});
        }
        stacks[found->second].second.emplace(meaning->expert, &entry);
      } else if (meaning->content == TensorContent::kGateUpExperts) {
        add_gate_up(entry, *meaning);
      } else {
        add_whole(entry, *meaning);
      }
    }
    for (const auto& [name, stack] : stacks) {
      add_stack(name, stack);
    }
  }

  // Scales are part of the tensor they belong to; without one they are damage.
  void add_unknown(const Entry& entry) {
    const std::string& name = entry.tensor->name;
    if (is_scale_name(name)) {
      check_scale_is_used(entry);
      return;
    }
    const SafetensorsMatrices matrices = read_matrices(model_, entry);
    add(entry, name, matrices.shape, matrices.slices);
  }

  void check_scale_is_used(const Entry& entry) const {
    for (const std::string& weight : scaled_tensor_names(entry.tensor->name)) {
      if (model_.find(weight) != nullptr && find_scales(model_, weight)->tensor == entry.tensor) {
        return;
      }
    }
    fail(entry, "scales of no tensor");
  }

  void add_whole(const Entry& entry, const TensorMeaning& meaning) {
    SafetensorsMatrices matrices = read_matrices(model_, entry);
    if (meaning.content == TensorContent::kExperts) {
      require_stack(entry);
    }
    add(entry, meaning.name, matrices.shape, std::move(matrices.slices));
  }

  void add_gate_up(const Entry& entry, const TensorMeaning& meaning) {
    SafetensorsMatrices both = read_matrices(model_, entry);
    require_stack(entry);
    if (both.shape.out_dim % 2 != 0) {
      fail(entry, fmt::format("shape {}, expected an even count of rows: those of gate, then of up",
                              shape_text(entry.tensor->shape)));
    }
    both.shape.out_dim /= 2;
    const size_t gate_bytes =
        dtype_row_bytes(both.shape.dtype, both.shape.in_dim) * static_cast<size_t>(both.shape.out_dim);
    std::vector<WeightSlice> up = both.slices;
    for (WeightSlice& slice : up) {
      slice.codes += gate_bytes;
    }
    add(entry, meaning.name, both.shape, std::move(both.slices));
    add(entry, meaning.up_name, both.shape, std::move(up));
  }

  static void require_stack(const Entry& entry) {
    if (entry.tensor->shape.size() != 3) {
      fail(entry, fmt::format("shape {}, expected [experts, rows, columns]", shape_text(entry.tensor->shape)));
    }
  }

  void add_stack(const std::string& name, const ExpertStack& stack) {
    Weight form;
    std::vector<WeightSlice> slices;
    for (const auto& [expert, entry] : stack) {
      if (expert != static_cast<int>(slices.size())) {
        fail(*entry, fmt::format("expert {} of {} is missing", slices.size(), name));
      }
      SafetensorsMatrices matrices = read_matrices(model_, *entry);
      if (matrices.slices.size() != 1) {
        fail(*entry, fmt::format("shape {}, expected one matrix", shape_text(entry->tensor->shape)));
      }
      if (expert == 0) {
        form = matrices.shape;
      } else if (!same_form(form, matrices.shape)) {
        fail(*entry, fmt::format("{}, expected {} as expert 0", form_text(matrices.shape), form_text(form)));
      }
      slices.push_back(matrices.slices.front());
    }
    add(*stack.begin()->second, name, form, std::move(slices));
  }

  void add(const Entry& entry, const std::string& name, const Weight& form, std::vector<WeightSlice> slices) {
    if (!add_tensor(name, form, std::move(slices))) {
      fail(entry, fmt::format("a second tensor that is {}", name));
    }
  }

  SafetensorsModel model_;
  FileMap config_;
  FileMap tokenizer_;
};

}  // namespace

std::unique_ptr<WeightSource> open_safetensors_source(const std::string& path) {
  std::error_code ignored;
  const bool is_directory = std::filesystem::is_directory(path, ignored);
  auto source = std::make_unique<SafetensorsSource>(SafetensorsModel::open(path));
  source->read_files_beside(is_directory ? std::filesystem::path(path) : std::filesystem::path(path).parent_path());
  return source;
}

std::unique_ptr<WeightSource> make_safetensors_source(SafetensorsModel model) {
  return std::make_unique<SafetensorsSource>(std::move(model));
}

}  // namespace fathom
