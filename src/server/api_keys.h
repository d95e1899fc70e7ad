// Who may ask.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "server/http.h"

namespace fathom {

class ApiKeys {
 public:
  explicit ApiKeys(std::vector<std::string> keys) : keys_(std::move(keys)) {}

  // `Authorization: Bearer KEY` or `x-api-key: KEY`. Throws ApiError kAuthentication; without keys nobody is refused.
  void require(const HttpRequest& request) const;

 private:
  std::vector<std::string> keys_;
};

// One key a line; empty lines and those that begin with # do not count. Throws Error kIo, and kBadRequest when the file
// has no key.
[[nodiscard]] std::vector<std::string> read_key_file(const std::string& path);

}  // namespace fathom
