// Any bytes as a reply: the first says what the parser expects, the second how the text is cut. The events are the same
// for every cut and keep their promises.
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "core/check.h"
#include "support/reply_collector.h"

namespace {

using fathom::ReplyEnd;
using fathom::ReplyOptions;

ReplyOptions make_options(uint8_t bits) {
  const std::vector<fathom::Tool> tools = {
      {.name = "f", .definition = R"({"parameters": {"properties": {"s": {"type": "string"}, "i": {"type": "integer"},
                        "b": {"type": ["boolean", "null"]}, "o": {"type": "object"}, "any": {}}}})"}};
  ReplyOptions options;
  options.start = static_cast<ReplyOptions::Start>(bits % 3);
  options.tools = fathom::ToolSchemas((bits & 4) != 0 ? std::vector<fathom::Tool>{} : tools);
  options.tolerant = (bits & 8) == 0;
  return options;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) {
    return 0;
  }
  const std::string_view text(reinterpret_cast<const char*>(data) + 2, size - 2);
  const ReplyOptions options = make_options(data[0]);
  const ReplyEnd end = (data[0] & 16) != 0 ? ReplyEnd::kLength : ReplyEnd::kStop;

  const auto whole = fathom::test::parse_whole(text, options, end);
  static_cast<void>(fathom::test::collect(whole.events));
  const auto bytewise = fathom::test::parse_reply(text, options, end, [](size_t) { return 1; });
  FATHOM_CHECK(bytewise.events == whole.events && bytewise.damage == whole.damage, "byte by byte it is the same");
  std::minstd_rand random(data[1] + 1U);
  const auto cut = fathom::test::parse_reply(text, options, end, [&](size_t) { return 1 + random() % 40; });
  FATHOM_CHECK(cut.events == whole.events && cut.damage == whole.damage, "in pieces it is the same");
  return 0;
}
