#include "support/oracle.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "safetensors/safetensors_writer.h"

namespace fathom::test {
namespace fs = std::filesystem;
namespace {

// Folders made by this process; removed when it ends.
class TemporaryFolders {
 public:
  ~TemporaryFolders() {
    std::error_code ignored;
    for (const fs::path& dir : made_) {
      fs::remove_all(dir, ignored);
    }
  }
  fs::path make() {
    std::string name = (fs::temp_directory_path() / "fathom-test-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) {
      throw std::runtime_error("cannot make a temporary folder");
    }
    made_.emplace_back(name);
    return made_.back();
  }

 private:
  std::vector<fs::path> made_;
};

template <class T>
ReferenceTensors::Array<T> copy(const SafetensorsFile& file, const std::string& name, SafetensorsDType dtype) {
  const SafetensorsTensor* t = file.find(name);
  if (t == nullptr || t->dtype != dtype) {
    throw std::runtime_error(file.path() + ": no tensor " + name + " of the expected type");
  }
  ReferenceTensors::Array<T> a;
  a.shape.assign(t->shape.begin(), t->shape.end());
  a.values.resize(t->bytes.size() / sizeof(T));
  std::memcpy(a.values.data(), t->bytes.data(), t->bytes.size());
  return a;
}

}  // namespace

ReferenceTensors::ReferenceTensors(const std::string& path) : file_(SafetensorsFile::open(path)) {}

bool ReferenceTensors::has(const std::string& name) const { return file_.find(name) != nullptr; }

ReferenceTensors::Array<float> ReferenceTensors::floats(const std::string& name) const {
  return copy<float>(file_, name, SafetensorsDType::kF32);
}

ReferenceTensors::Array<int32_t> ReferenceTensors::ints(const std::string& name) const {
  return copy<int32_t>(file_, name, SafetensorsDType::kI32);
}

std::vector<int> ReferenceTensors::lengths(const std::string& prefix) const {
  std::vector<int> found;
  for (const SafetensorsTensor& t : file_.tensors()) {
    if (t.name.starts_with(prefix + ".")) {
      found.push_back(std::stoi(t.name.substr(prefix.size() + 1)));
    }
  }
  std::sort(found.begin(), found.end());
  return found;
}

fs::path shared_dir(const std::string& sub) {
  const fs::path dir = fs::path(FATHOM_SHARED_DIR) / sub;
  return fs::is_directory(dir) ? dir : fs::path();
}

std::vector<Fixture> oracle_fixtures() {
  std::vector<Fixture> fixtures;
  for (const char* name : {"mini", "flash", "k256"}) {
    const fs::path full = shared_dir(std::string("fixtures/oracle/") + name);
    fixtures.push_back({name, full.empty() ? fs::path(FATHOM_TEST_DATA_DIR) / "oracle" / name : full});
  }
  return fixtures;
}

fs::path official_spelling(const fs::path& fixture) {
  static TemporaryFolders folders;
  const fs::path dir = folders.make();
  fs::copy_file(fixture / "config_official.json", dir / "config.json");

  std::ifstream names_file(fixture / "names.json");
  const auto names = nlohmann::json::parse(names_file);
  const SafetensorsFile source = SafetensorsFile::open((fixture / "model.safetensors").string());
  std::vector<SafetensorsTensor> renamed;
  for (const SafetensorsTensor& t : source.tensors()) {
    const nlohmann::json& name = names.at(t.name);
    if (name.is_string()) {
      renamed.push_back(t);
      renamed.back().name = name;
      continue;
    }
    // A stack of experts: one tensor per expert, or two (gate rows, then up rows).
    for (size_t e = 0; e < name.size(); ++e) {
      const size_t expert_bytes = t.bytes.size() / name.size();
      const auto parts = name[e].is_array() ? name[e].get<std::vector<std::string>>()
                                            : std::vector<std::string>{name[e].get<std::string>()};
      for (size_t p = 0; p < parts.size(); ++p) {
        const size_t part_bytes = expert_bytes / parts.size();
        renamed.push_back({.name = parts[p],
                           .dtype = t.dtype,
                           .shape = {t.shape[1] / parts.size(), t.shape[2]},
                           .bytes = t.bytes.subspan(e * expert_bytes + p * part_bytes, part_bytes)});
      }
    }
  }
  write_safetensors((dir / "model.safetensors").string(), renamed);
  return dir;
}

}  // namespace fathom::test
