// Random replies: well-formed ones against the strict rules, damaged ones against what holds for every reply.
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "chat/reply_parser.h"
#include "core/prompt_text.h"
#include "support/reply_collector.h"
#include "support/strict_reply.h"

namespace fathom {
namespace {

using Start = ReplyOptions::Start;

const std::string kMark(literal::kDsml);

class ReplyMaker {
 public:
  explicit ReplyMaker(unsigned seed) : random_(seed) {}

  size_t below(size_t n) { return random_() % n; }

  std::string text(size_t max_parts) {
    static const std::vector<std::string> parts = {"a",      "word ",      "\n", "\n\n", "<",     "</",
                                                   "<b>",    "\"",         "\\", "\t",   "&lt;",  "\u00E9",
                                                   "\u20AC", "\U0001F600", "{}", "1",    "\uFF5C"};
    std::string out;
    for (size_t n = below(max_parts + 1); n > 0; --n) {
      out += parts[below(parts.size())];
    }
    return out;
  }

  // Newlines at its ends belong to the markup around it.
  std::string trimmed_text() {
    const std::string out = text(12);
    const size_t begin = out.find_first_not_of('\n');
    return begin == std::string::npos ? "" : out.substr(begin, out.find_last_not_of('\n') - begin + 1);
  }

  std::string reply(bool thinking) {
    std::string out = thinking ? trimmed_text() + std::string(literal::kEndThink) : "";
    out += trimmed_text();
    if (below(3) > 0) {
      out += "\n\n<" + kMark + "tool_calls>\n";
      for (size_t n = 1 + below(3); n > 0; --n) {
        out += call();
      }
      out += "</" + kMark + "tool_calls>";
    }
    return out + std::string(literal::kEos);
  }

  // Bytes of the text removed, doubled, swapped or replaced by markup.
  std::string damaged(std::string text) {
    static const std::vector<std::string> markup = {"<think>",
                                                    "</think>",
                                                    "<" + kMark,
                                                    "</" + kMark,
                                                    "tool_calls>",
                                                    "invoke name=\"f\">",
                                                    kMark,
                                                    "\uFF5C",
                                                    "\n\n",
                                                    "<tool_calls>",
                                                    "\xe2",
                                                    "`",
                                                    "\"",
                                                    ">",
                                                    "<|DSML|parameter name=\"y\">",
                                                    "{",
                                                    "</" + kMark + "invoke>"};
    for (size_t n = 1 + below(4); n > 0 && !text.empty(); --n) {
      const size_t at = below(text.size());
      const size_t length = 1 + below(20);
      switch (below(3)) {
        case 0:
          text.erase(at, length);
          break;
        case 1:
          text.insert(at, text.substr(below(text.size()), length));
          break;
        default:
          text.insert(at, markup[below(markup.size())]);
      }
    }
    return text;
  }

 private:
  std::string call() {
    static const std::vector<std::string> values = {"1",  "-2.5e3", "true", "null", "[1, {\"a\": \"b\"}]",
                                                    "{}", "\"s\""};
    std::string out = "<" + kMark + "invoke name=\"f" + std::to_string(below(3)) + "\">\n";
    const size_t n_parameters = below(4);
    for (size_t i = 0; i < n_parameters; ++i) {
      const bool is_string = below(2) == 0;
      out += "<" + kMark + "parameter name=\"p " + std::to_string(i) + "\" string=\"" + (is_string ? "true" : "false") +
             "\">";
      out += is_string ? text(8) : values[below(values.size())];
      out += "</" + kMark + "parameter>\n";
    }
    return out + "</" + kMark + "invoke>\n";
  }

  std::minstd_rand random_;
};

ReplyOptions with_tools(Start start) {
  return {.start = start, .tools = ToolSchemas(std::vector<Tool>{{.name = "f", .definition = "{}"}})};
}

TEST(ReplyRandom, WellFormedRepliesAreReadAsTheStrictRulesSay) {
  size_t n_calls = 0;
  for (unsigned seed = 1; seed <= 2000; ++seed) {
    ReplyMaker maker(seed);
    const bool thinking = seed % 2 == 0;
    const std::string text = maker.reply(thinking);
    const auto parsed = test::parse_whole(text, with_tools(thinking ? Start::kReasoning : Start::kContent));
    ASSERT_EQ(test::collect(parsed.events), test::StrictReader(text, thinking).read()) << seed << ": " << text;
    ASSERT_EQ(parsed.damage, 0) << seed << ": " << text;
    n_calls += test::collect(parsed.events).calls.size();
  }
  EXPECT_GT(n_calls, 2000U);
}

TEST(ReplyRandom, DamagedRepliesKeepThePromises) {
  for (unsigned seed = 1; seed <= 2000; ++seed) {
    ReplyMaker maker(seed);
    const std::string text = maker.damaged(maker.reply(seed % 2 == 0));
    SCOPED_TRACE(text);
    const ReplyEnd end = seed % 3 == 0 ? ReplyEnd::kLength : ReplyEnd::kStop;
    for (const Start start : {Start::kContent, Start::kReasoning, Start::kContinued}) {
      const ReplyOptions options = seed % 5 == 0 ? ReplyOptions{.start = start} : with_tools(start);
      const auto whole = test::parse_whole(text, options, end);
      ASSERT_NO_THROW(static_cast<void>(test::collect(whole.events))) << seed;
      const auto bytewise = test::parse_reply(text, options, end, [](size_t) { return 1; });
      ASSERT_EQ(bytewise.events, whole.events) << seed;
      ASSERT_EQ(bytewise.damage, whole.damage) << seed;
      const auto cut = test::parse_reply(text, options, end, [&](size_t) { return 1 + maker.below(30); });
      ASSERT_EQ(cut.events, whole.events) << seed;
    }
  }
}

}  // namespace
}  // namespace fathom
