#include "sampling/stop_matcher.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "support/expect_error.h"

namespace fathom {
namespace {

struct Outcome {
  std::string text;
  std::optional<size_t> matched;

  bool operator==(const Outcome&) const = default;
};

// By definition: the first end of any stop string; of those that end there, the longest.
Outcome search(std::string_view text, const std::vector<std::string>& stops) {
  for (size_t end = 1; end <= text.size(); ++end) {
    std::optional<size_t> best;
    for (size_t i = 0; i < stops.size(); ++i) {
      if (text.substr(0, end).ends_with(stops[i]) && (!best || stops[i].size() > stops[*best].size())) {
        best = i;
      }
    }
    if (best) {
      return {std::string(text.substr(0, end - stops[*best].size())), best};
    }
  }
  return {std::string(text), std::nullopt};
}

// The longest end of `text` that a stop string begins with.
size_t must_hold(std::string_view text, const std::vector<std::string>& stops) {
  for (size_t n = text.size(); n > 0; --n) {
    for (const std::string& stop : stops) {
      if (std::string_view(stop).starts_with(text.substr(text.size() - n))) {
        return n;
      }
    }
  }
  return 0;
}

// Bit i of `cuts`: a piece ends after character i.
Outcome feed_in_pieces(std::string_view text, const std::vector<std::string>& stops, uint32_t cuts) {
  StopMatcher matcher(stops);
  std::string out;
  size_t start = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if ((cuts >> i & 1U) != 0 || i + 1 == text.size()) {
      out += matcher.feed(text.substr(start, i + 1 - start));
      start = i + 1;
      if (!matcher.matched()) {
        const std::string_view so_far = text.substr(0, start);
        EXPECT_EQ(out.size(), so_far.size() - must_hold(so_far, stops)) << "after '" << so_far << "'";
      }
    }
  }
  out += matcher.finish();
  return {out, matcher.matched()};
}

TEST(StopMatcher, FindsTheSameMatchHoweverTheTextIsCut) {
  const std::vector<std::vector<std::string>> stop_sets{
      {"ab"}, {"aab"}, {"abab", "ba"}, {"aaa", "b"}, {"abcab", "bca"}, {"cc", "bc", "abc"}, {"a", "ab"}, {"caac"}, {}};
  std::mt19937 random(21);
  for (const std::vector<std::string>& stops : stop_sets) {
    for (int round = 0; round < 40; ++round) {
      std::string text(8, ' ');
      std::generate(text.begin(), text.end(), [&] { return static_cast<char>('a' + random() % 3); });
      const Outcome expected = search(text, stops);
      for (uint32_t cuts = 0; cuts < 1U << (text.size() - 1); ++cuts) {
        ASSERT_EQ(feed_in_pieces(text, stops, cuts), expected) << "text " << text << ", cuts " << cuts;
      }
    }
  }
}

TEST(StopMatcher, FirstEndWinsAndThenTheLongest) {
  const std::vector<std::string> stops{"world", "lo w", "o wo"};
  StopMatcher matcher(stops);
  EXPECT_EQ(matcher.feed("hello world"), "hel");
  EXPECT_EQ(matcher.matched(), 1U);

  StopMatcher nested(std::vector<std::string>{"c", "bc", "abc"});
  EXPECT_EQ(nested.feed("xabc"), "x");
  EXPECT_EQ(nested.matched(), 2U);
}

TEST(StopMatcher, ReleasesWhatTurnedOutHarmless) {
  StopMatcher matcher(std::vector<std::string>{"</tool>"});
  EXPECT_EQ(matcher.feed("a </to"), "a ");
  EXPECT_EQ(matcher.feed("p> b <"), "</top> b ");
  EXPECT_EQ(matcher.finish(), "<");
  EXPECT_FALSE(matcher.matched());
}

TEST(StopMatcher, DropsEverythingAfterAMatch) {
  StopMatcher matcher(std::vector<std::string>{"END"});
  EXPECT_EQ(matcher.feed("textEND more"), "text");
  EXPECT_EQ(matcher.feed("and more"), "");
  EXPECT_EQ(matcher.finish(), "");
}

TEST(StopMatcher, KeepsUtf8CharactersWhole) {
  // The stop string starts with the bytes that other characters start with, too.
  StopMatcher matcher(std::vector<std::string>{"\xE2\x82\xAC!"});
  EXPECT_EQ(matcher.feed("5\xE2\x82\xAC"), "5");
  EXPECT_EQ(matcher.feed("\xE2\x82\xAD"), "\xE2\x82\xAC\xE2\x82\xAD");
}

TEST(StopMatcher, TheFirstOfEqualStopStringsIsNamed) {
  StopMatcher matcher(std::vector<std::string>{"x", "x"});
  EXPECT_EQ(matcher.feed("x"), "");
  EXPECT_EQ(matcher.matched(), 0U);
}

TEST(StopMatcher, RejectsEmptyStopStrings) {
  EXPECT_ERROR(StopMatcher(std::vector<std::string>{"a", ""}), ErrorCode::kBadRequest,
               "stop[1]: empty, expected at least one character");
}

}  // namespace
}  // namespace fathom
