// Renderings of the official encoder, byte for byte and token for token. They are third-party data: fetched, not
// committed.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "chat/conversation.h"
#include "chat/message_json.h"
#include "chat/prompt.h"
#include "core/ordered_json.h"
#include "support/read_file.h"
#include "support/test_tokenizers.h"
#include "tokenizer/tokenizer.h"

namespace fathom {
namespace {

using Json = nlohmann::ordered_json;

const std::string kFixtures = FATHOM_SHARED_DIR "/fixtures/encoding";

#define FATHOM_SKIP_WITHOUT_FIXTURES()      \
  if (std::filesystem::exists(kFixtures)) { \
  } else                                    \
    GTEST_SKIP() << kFixtures << " is absent; FATHOM_SHARED_DIR names the folder of external fixtures"

std::vector<Json> render_cases() {
  std::vector<Json> cases;
  std::ifstream lines(kFixtures + "/render_cases.jsonl");
  for (std::string line; std::getline(lines, line);) {
    cases.push_back(parse_ordered_json(line, "render_cases.jsonl"));
  }
  return cases;
}

RenderedPrompt render(const Json& test_case, bool strict) {
  const Json& opts = test_case.at("opts");
  ChatOptions options;
  options.dialect = dialect_from_name(opts.at("profile").get<std::string>()).value();
  options.drop_thinking = opts.at("drop_thinking").get<bool>();
  options.strict_official = strict;
  if (opts.at("thinking").get<bool>()) {
    const std::string effort = opts.at("effort").is_null() ? "low" : opts.at("effort").get<std::string>();
    options.thinking = effort == "max" ? Thinking::kMax : effort == "high" ? Thinking::kHigh : Thinking::kLow;
  }
  return render_chat(read_messages(test_case.at("messages"), "messages"), options);
}

TEST(OfficialRender, GivesTheBytesOfEveryCase) {
  FATHOM_SKIP_WITHOUT_FIXTURES();
  const std::vector<Json> cases = render_cases();
  ASSERT_EQ(cases.size(), 51U);
  for (const Json& c : cases) {
    EXPECT_EQ(render(c, false).text, c.at("render").get<std::string>()) << c.at("name");
    EXPECT_EQ(render(c, true).text, c.at("render").get<std::string>()) << c.at("name");
  }
}

TEST(OfficialRender, GivesTheIdsOfEveryCase) {
  FATHOM_SKIP_WITHOUT_FIXTURES();
  FATHOM_SKIP_WITHOUT_V4_TOKENIZER();
  const Tokenizer tokenizer(test::v4_tokenizer_data());
  for (const Json& c : render_cases()) {
    for (const bool strict : {false, true}) {
      // The one case with control tokens in a user's text.
      if (!strict && c.at("name") == "special_tokens_in_content") {
        continue;
      }
      const RenderedPrompt prompt = render(c, strict);
      EXPECT_EQ(tokenizer.encode(prompt.text, {.added_tokens = AddedTokenPolicy::kTrusted,
                                               .trusted = prompt.trusted,
                                               .markup_everywhere = false}),
                c.at("ids").get<std::vector<TokenId>>())
          << c.at("name") << " strict " << strict;
    }
  }
}

TEST(OfficialRender, HasAsManyTokensAsTheOfficialApiCounts) {
  FATHOM_SKIP_WITHOUT_FIXTURES();
  FATHOM_SKIP_WITHOUT_V4_TOKENIZER();
  const Tokenizer tokenizer(test::v4_tokenizer_data());
  int n_checked = 0;
  for (const auto& file : std::filesystem::directory_iterator(kFixtures + "/official_api_vectors/official")) {
    const Json vector = parse_ordered_json(test::read_file(file.path().string()), file.path().string());
    const RenderedPrompt prompt =
        render_chat(for_generation(read_messages(vector.at("request").at("messages"), "messages")), {});
    EXPECT_EQ(
        tokenizer.encode(prompt.text, {.added_tokens = AddedTokenPolicy::kTrusted, .trusted = prompt.trusted}).size(),
        vector.at("usage").at("prompt_tokens").get<size_t>())
        << file.path();
    ++n_checked;
  }
  EXPECT_EQ(n_checked, 5);
}

TEST(OfficialRender, GivesTheShippedOutputs) {
  FATHOM_SKIP_WITHOUT_FIXTURES();
  for (const std::string number : {"1", "2", "3", "4"}) {
    const Json input =
        parse_ordered_json(test::read_file(kFixtures + "/official/test_input_" + number + ".json"), "input");
    std::vector<ChatMessage> messages = read_messages(input.is_array() ? input : input.at("messages"), "messages");
    if (input.is_object() && input.contains("tools")) {
      offer_tools(messages, read_tools(input.at("tools"), "tools"));
    }
    const ChatOptions options{.thinking = number == "4" ? Thinking::kOff : Thinking::kLow};
    EXPECT_EQ(render_chat(messages, options).text,
              test::read_file(kFixtures + "/official/test_output_" + number + ".txt"))
        << number;
  }
}

// The text-only models have no images; the rest of the case of the vision model is the same.
TEST(OfficialRender, GivesTheVisionOutputButForImages) {
  FATHOM_SKIP_WITHOUT_FIXTURES();
  const Json input = parse_ordered_json(test::read_file(kFixtures + "/official/test_input_5_vision.json"), "input");
  std::string expected = test::read_file(kFixtures + "/official/test_output_5_vision_chatmode.txt");
  const std::string image = "<\uFF5Cdeepseek_image\uFF5C>";
  for (size_t at = expected.find(image); at != std::string::npos; at = expected.find(image)) {
    expected.replace(at, image.size(), "[Unsupported image_url]");
  }
  EXPECT_EQ(render_chat(read_messages(input.at("messages"), "messages"), {}).text, expected);
}

}  // namespace
}  // namespace fathom
