// For tests of the formats of APIs: a served model whose engine nobody asks, and streams taken apart.
#pragma once

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "server/chat_endpoint.h"
#include "support/scripted_engine.h"
#include "support/test_tokenizers.h"

namespace fathom::test {

struct SseEvent {
  std::string name;  // empty without an "event:" line
  nlohmann::ordered_json data;
};

inline std::vector<SseEvent> parse_sse(std::string_view text) {
  std::vector<SseEvent> events;
  while (!text.empty()) {
    const size_t end = text.find("\n\n");
    if (end == std::string_view::npos) {
      ADD_FAILURE() << "an event without its end: " << text;
      break;
    }
    std::string_view event = text.substr(0, end);
    text.remove_prefix(end + 2);
    SseEvent out;
    if (event.starts_with("event: ")) {
      const size_t line = event.find('\n');
      out.name = event.substr(7, line - 7);
      event.remove_prefix(line + 1);
    }
    if (!event.starts_with("data: ")) {
      ADD_FAILURE() << "an event without data: " << event;
      break;
    }
    out.data = nlohmann::ordered_json::parse(event.substr(6));
    events.push_back(std::move(out));
  }
  return events;
}

class ApiExchangeTest : public testing::Test {
 protected:
  ServedModel& model() { return model_; }
  [[nodiscard]] static HttpRequest request() {
    return {.id = "req_1", .method = "POST", .path = "/", .body = {}, .remote = "127.0.0.1"};
  }

  template <class F>
  static std::string error_of(const F& f) {
    try {
      f();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kBadRequest);
      return error.what();
    }
    return "no error";
  }

  // What a client gets to see of a generation with these events.
  static std::vector<SseEvent> stream(ChatFormat& format, const std::vector<ChatEvent>& events,
                                      const ChatUsage& usage) {
    std::string text = format.begin({.prompt_tokens = usage.prompt_tokens});
    for (const ChatEvent& event : events) {
      text += format.event(event);
    }
    text += format.end(usage);
    return parse_sse(text);
  }

 private:
  ScriptedEngine engine_{[](const GenerationRequest&) { return Script{}; }};
  Tokenizer tokenizer_{bundled_tokenizer_data()};
  ServedModel model_{.engine = engine_, .tokenizer = tokenizer_, .id = "fathom"};
};

}  // namespace fathom::test
