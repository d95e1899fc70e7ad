#include "grammar/string_format.h"

#include <unordered_map>

namespace fathom {
namespace {

std::unordered_map<std::string, std::string> make_patterns() {
  // Years 1000 to 9999; February 29 in leap years only.
  const std::string year = "[1-9][0-9]{3}";
  const std::string leap_year = "(?:[1-9][0-9](?:0[48]|[2468][048]|[13579][26])|(?:[2468][048]|1[26]|[3579][26])00)";
  const std::string date = "(?:" + year +
                           "-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|"
                           "02-(?:0[1-9]|1[0-9]|2[0-8]))|" +
                           leap_year + "-02-29)";
  const std::string time =
      "(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\\.[0-9]{1,6})?(?:Z|[+-](?:0[0-9]|1[0-3]):[0-5][0-9])";
  const std::string byte = "(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])";
  const std::string label = "[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,20}[a-zA-Z0-9])?";
  const std::string host = label + "(?:\\." + label + "){0,3}\\.[a-zA-Z]{2,10}";
  const std::string hex = "[0-9a-fA-F]";
  const std::string path = "(?:/[a-zA-Z0-9._~-]{0,30}){0,8}";
  return {
      {"date", date},
      {"time", time},
      {"date-time", date + "T" + time},
      {"uuid", hex + "{8}-" + hex + "{4}-" + hex + "{4}-" + hex + "{4}-" + hex + "{12}"},
      {"email", "[a-zA-Z0-9_+-]{1,20}(?:\\.[a-zA-Z0-9_+-]{1,20}){0,2}@" + host},
      {"hostname", host},
      {"ipv4", byte + "(?:\\." + byte + "){3}"},
      {"ipv6", "(?:" + hex + "{1,4}:){7}" + hex + "{1,4}"},
      {"uri", "https?://" + host + path + "(?:\\?[a-zA-Z0-9=&._-]{0,40})?"},
      {"duration", "P(?:[1-9][0-9]{0,2}D|[1-9][0-9]?W|T[1-9][0-9]?H|T[1-9][0-9]?M|T[1-9][0-9]?S)"},
  };
}

}  // namespace

std::optional<std::string> format_pattern(std::string_view format) {
  static const std::unordered_map<std::string, std::string> patterns = make_patterns();
  const auto found = patterns.find(std::string(format));
  return found == patterns.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace fathom
