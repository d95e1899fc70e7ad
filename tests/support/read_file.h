// A whole file as a string.
#pragma once

#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>

namespace fathom::test {

inline std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::string content{std::istreambuf_iterator<char>(in), {}};
  if (!in) {
    throw std::runtime_error("cannot read " + path);
  }
  return content;
}

}  // namespace fathom::test
