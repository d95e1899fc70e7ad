// The oracle fixtures: tiny random models with reference results of an independent implementation.
// tests/data/oracle holds trimmed copies; the full ones are used instead where FATHOM_SHARED_DIR has them.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "safetensors/safetensors_file.h"

namespace fathom::test {

// Host copies of one reference file.
class ReferenceTensors {
 public:
  explicit ReferenceTensors(const std::string& path);

  template <class T>
  struct Array {
    std::vector<int64_t> shape;
    std::vector<T> values;
    [[nodiscard]] int rows() const { return static_cast<int>(shape[0]); }
    [[nodiscard]] int cols() const { return static_cast<int>(static_cast<int64_t>(values.size()) / shape[0]); }
    [[nodiscard]] const T* row(int r) const {
      return values.data() + static_cast<size_t>(r) * static_cast<size_t>(cols());
    }
  };

  [[nodiscard]] bool has(const std::string& name) const;
  [[nodiscard]] Array<float> floats(const std::string& name) const;
  [[nodiscard]] Array<int32_t> ints(const std::string& name) const;
  // The numbers L for which `prefix`.L exists, ascending.
  [[nodiscard]] std::vector<int> lengths(const std::string& prefix) const;

 private:
  SafetensorsFile file_;
};

struct Fixture {
  std::string name;
  std::filesystem::path dir;
};

// mini, flash, k256: the full ones where they exist, else the trimmed copies of tests/data.
[[nodiscard]] std::vector<Fixture> oracle_fixtures();
// A folder of FATHOM_SHARED_DIR; empty when it is not there.
[[nodiscard]] std::filesystem::path shared_dir(const std::string& sub);

// A safetensors directory with the same tensors under the official names (names.json), made on first use in a temporary
// folder that lives as long as the process.
[[nodiscard]] std::filesystem::path official_spelling(const std::filesystem::path& fixture);

}  // namespace fathom::test
