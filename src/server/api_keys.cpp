#include "server/api_keys.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include "core/error.h"
#include "server/api_error.h"

namespace fathom {
namespace {

// Takes the same time wherever the two differ; only the lengths can be told from it.
bool equal_in_constant_time(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) {
    return false;
  }
  unsigned difference = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    difference |= static_cast<unsigned char>(a[i]) ^ static_cast<unsigned>(static_cast<unsigned char>(b[i]));
  }
  return difference == 0;
}

std::string_view given_key(const HttpRequest& request) {
  constexpr std::string_view kBearer = "Bearer ";
  const std::string_view authorization = request.header("authorization");
  if (authorization.starts_with(kBearer)) {
    return authorization.substr(kBearer.size());
  }
  return request.header("x-api-key");
}

std::string_view trimmed(std::string_view line) {
  constexpr std::string_view kBlank = " \t\r";
  const size_t begin = line.find_first_not_of(kBlank);
  return begin == std::string_view::npos ? std::string_view{}
                                         : line.substr(begin, line.find_last_not_of(kBlank) + 1 - begin);
}

}  // namespace

void ApiKeys::require(const HttpRequest& request) const {
  const std::string_view given = given_key(request);
  bool known = keys_.empty();
  for (const std::string& key : keys_) {
    known = equal_in_constant_time(key, given) || known;
  }
  if (!known) {
    throw ApiError(ApiErrorKind::kAuthentication,
                   given.empty() ? "no API key was given: expected Authorization: Bearer KEY, or x-api-key: KEY"
                                 : "the API key is not one of this server's");
  }
}

std::vector<std::string> read_key_file(const std::string& path) {
  std::ifstream file(path);
  if (!file) {
    throw Error(ErrorCode::kIo, fmt::format("{}: {}", path, std::strerror(errno)));
  }
  std::vector<std::string> keys;
  for (std::string line; std::getline(file, line);) {
    if (const std::string_view key = trimmed(line); !key.empty() && key.front() != '#') {
      keys.emplace_back(key);
    }
  }
  if (keys.empty()) {
    throw Error(ErrorCode::kBadRequest, fmt::format("{}: no API key in it", path));
  }
  return keys;
}

}  // namespace fathom
