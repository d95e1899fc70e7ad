#include "server/object_id.h"

#include <algorithm>
#include <iterator>
#include <random>

namespace fathom {

std::string object_id(std::string_view prefix) {
  constexpr std::string_view kCharacters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
  std::random_device random;
  std::uniform_int_distribution<size_t> index(0, kCharacters.size() - 1);
  std::string id(prefix);
  std::generate_n(std::back_inserter(id), 24, [&] { return kCharacters[index(random)]; });
  return id;
}

}  // namespace fathom
