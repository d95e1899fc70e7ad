// V4's real vocabulary against official ids and counts. It is fetched, not committed, as are the golden files.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "support/read_file.h"
#include "support/test_tokenizers.h"
#include "tokenizer/tokenizer.h"

namespace fathom {
namespace {

using Json = nlohmann::json;
using Tokens = std::vector<TokenId>;

const std::string kGolden = FATHOM_SHARED_DIR "/fixtures/encoding";

#define FATHOM_SKIP_WITHOUT_GOLDEN_FILES() \
  if (std::filesystem::exists(kGolden)) {  \
  } else                                   \
    GTEST_SKIP() << kGolden << " is absent; FATHOM_SHARED_DIR names the folder of external fixtures"

const Tokenizer& v4() {
  static const Tokenizer tokenizer(test::v4_tokenizer_data());
  return tokenizer;
}

void expect_ids(std::string_view text, const Json& ids, const std::string& name) {
  const Tokens tokens = v4().encode(text);
  EXPECT_EQ(tokens, ids.get<Tokens>()) << name;
  EXPECT_EQ(v4().decode(tokens), text) << name;
}

TEST(V4Vocabulary, HasItsSizeAndSpecials) {
  FATHOM_SKIP_WITHOUT_V4_TOKENIZER();
  EXPECT_EQ(v4().size(), 129280U);
  EXPECT_TRUE(v4().warnings().empty());
  const ChatTokens tokens = v4().require_chat_tokens();
  EXPECT_EQ(tokens.bos, 0);
  EXPECT_EQ(tokens.eos, 1);
  EXPECT_EQ(tokens.user, 128803);
  EXPECT_EQ(tokens.assistant, 128804);
  EXPECT_EQ(tokens.think, 128821);
  EXPECT_EQ(tokens.end_think, 128822);
  EXPECT_EQ(tokens.dsml, 128825);
}

TEST(V4Vocabulary, EncodesTheEdgeCases) {
  FATHOM_SKIP_WITHOUT_V4_TOKENIZER();
  const Json cases = Json::parse(test::read_file(FATHOM_TEST_DATA_DIR "/encoding/tokenizer_edge_cases.json"));
  ASSERT_EQ(cases.size(), 58U);
  for (const Json& c : cases) {
    expect_ids(c.at("text").get<std::string>(), c.at("ids"), c.dump());
  }
}

TEST(V4Vocabulary, MergesAcrossWhatMayLookLikeBoundaries) {
  FATHOM_SKIP_WITHOUT_V4_TOKENIZER();
  EXPECT_EQ(v4().encode("</tool_result>\n\n"), (Tokens{1718, 72461, 46148, 4697}));
  EXPECT_EQ(v4().encode(".\n\n"), Tokens{339});
  EXPECT_EQ(v4().encode("<tool_result>"), (Tokens{30, 72461, 46148, 32}));
}

TEST(V4Vocabulary, UntrustedControlTokensAreText) {
  FATHOM_SKIP_WITHOUT_V4_TOKENIZER();
  const std::string text = std::string(literal::kUser) + std::string(literal::kEos);
  const TextSpan trusted[] = {{0, literal::kUser.size()}};
  const Tokens tokens = v4().encode(text, {.added_tokens = AddedTokenPolicy::kTrusted, .trusted = trusted});
  EXPECT_EQ(tokens.front(), 128803);
  EXPECT_EQ(std::ranges::count(tokens, 1), 0);
  EXPECT_EQ(v4().decode(tokens), text);
}

TEST(V4Vocabulary, GivesTheOfficialIds) {
  FATHOM_SKIP_WITHOUT_V4_TOKENIZER();
  FATHOM_SKIP_WITHOUT_GOLDEN_FILES();
  const Json golden = Json::parse(test::read_file(kGolden + "/golden_ids_subset.json"));
  ASSERT_EQ(golden.size(), 13U);
  for (const Json& c : golden) {
    expect_ids(c.at("render").get<std::string>(), c.at("ids"), c.at("name"));
  }
  const Json shipped = Json::parse(test::read_file(kGolden + "/golden_ids_shipped_1.json"));
  expect_ids(test::read_file(kGolden + "/" + shipped.at("render_file").get<std::string>()), shipped.at("ids"),
             shipped.at("name"));
}

TEST(V4Vocabulary, GivesTheIdsOfTheRenderedCases) {
  FATHOM_SKIP_WITHOUT_V4_TOKENIZER();
  FATHOM_SKIP_WITHOUT_GOLDEN_FILES();
  std::istringstream lines(test::read_file(kGolden + "/render_cases.jsonl"));
  int n_checked = 0;
  for (std::string line; std::getline(lines, line); ++n_checked) {
    const Json c = Json::parse(line);
    expect_ids(c.at("render").get<std::string>(), c.at("ids"), c.at("name"));
  }
  EXPECT_EQ(n_checked, 51);
}

TEST(V4Vocabulary, CountsPromptTokensAsTheOfficialApiDoes) {
  FATHOM_SKIP_WITHOUT_V4_TOKENIZER();
  FATHOM_SKIP_WITHOUT_GOLDEN_FILES();
  int n_checked = 0;
  for (const auto& file : std::filesystem::directory_iterator(kGolden + "/official_api_vectors/official")) {
    const Json vector = Json::parse(test::read_file(file.path().string()));
    std::string prompt(literal::kBos);
    prompt += literal::kUser;
    prompt += vector.at("request").at("messages").at(0).at("content").get<std::string>();
    prompt += literal::kAssistant;
    prompt += literal::kEndThink;
    EXPECT_EQ(v4().encode(prompt).size(), vector.at("usage").at("prompt_tokens").get<size_t>()) << file.path();
    ++n_checked;
  }
  EXPECT_EQ(n_checked, 5);
}

}  // namespace
}  // namespace fathom
