// A server over loopback with a scripted engine behind it, and its client.
#pragma once

#include <gtest/gtest.h>
#include <httplib.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "server/server.h"
#include "support/scripted_engine.h"
#include "support/test_tokenizers.h"

namespace fathom::test {

inline const Tokenizer& bundled_tokenizer() {
  static const Tokenizer instance{bundled_tokenizer_data()};
  return instance;
}

// A reply of the engine: this text, and the end of the turn.
inline Script says(const std::string& text) { return {.tokens = bundled_tokenizer().encode(text)}; }

// The same text until the client has had enough.
inline Script says_forever(const std::string& text) {
  Script script = says(text);
  script.endless = true;
  return script;
}

// The `data:` lines of a stream; comments and event names are left out.
inline std::vector<std::string> sse_data_of(const std::string& body) {
  std::vector<std::string> data;
  size_t begin = 0;
  for (size_t end = body.find("\n\n"); end != std::string::npos; end = body.find("\n\n", begin)) {
    const std::string block = body.substr(begin, end - begin);
    begin = end + 2;
    if (const size_t at = block.rfind("data: ", 0) == 0 ? 0 : block.find("\ndata: "); at != std::string::npos) {
      data.push_back(block.substr(block.find("data: ", at) + 6));
    }
  }
  return data;
}

class ServerTest : public testing::Test {
 protected:
  using Json = nlohmann::ordered_json;

  void start(ScriptedEngine::Answer answer, ServerConfig config = {}, int max_context = 4096,
             std::chrono::microseconds step = {}) {
    engine_.emplace(std::move(answer), max_context, step);
    listen(*engine_, std::move(config));
  }
  void start(Script script, ServerConfig config = {}, std::chrono::microseconds step = {}) {
    start([script = std::move(script)](const GenerationRequest&) { return script; }, std::move(config), 4096, step);
  }
  void listen(Engine& engine, ServerConfig config) {
    ServedModel model{.engine = engine, .tokenizer = bundled_tokenizer(), .id = "tiny", .created = 1700000000};
    model.defaults.thinking = Thinking::kOff;
    model.request_timeout = request_timeout_;
    config.port = 0;
    server_.emplace(model, config);
    port_ = server_->bind();
    thread_ = std::thread([this] { server_->serve(); });
  }
  void TearDown() override { stop(); }
  void stop() {
    if (thread_.joinable()) {
      server_->shut_down(std::chrono::milliseconds(0));
      thread_.join();
    }
  }

  [[nodiscard]] httplib::Client client() const {
    httplib::Client client("127.0.0.1", port_);
    client.set_read_timeout(30);
    return client;
  }
  [[nodiscard]] httplib::Result post(const std::string& path, const std::string& body,
                                     const httplib::Headers& headers = {}) const {
    return client().Post(path, headers, body, "application/json");
  }
  [[nodiscard]] httplib::Result get(const std::string& path, const httplib::Headers& headers = {}) const {
    return client().Get(path, headers);
  }
  // The JSON of a response with this status.
  [[nodiscard]] Json expect_json(const httplib::Result& result, int status = 200) const {
    if (!result) {
      ADD_FAILURE() << "no response: " << httplib::to_string(result.error());
      return {};
    }
    EXPECT_EQ(result->status, status) << result->body;
    return Json::parse(result->body, nullptr, false);
  }
  [[nodiscard]] std::vector<Json> stream(const std::string& path, const std::string& body) const {
    const httplib::Result result = post(path, body);
    std::vector<Json> events;
    if (!result) {
      ADD_FAILURE() << "no response";
      return events;
    }
    EXPECT_EQ(result->status, 200) << result->body;
    for (const std::string& data : sse_data_of(result->body)) {
      events.push_back(data == "[DONE]" ? Json("[DONE]") : Json::parse(data));
    }
    return events;
  }
  // Until the engine has nothing left to do.
  [[nodiscard]] bool engine_becomes_idle() const {
    for (int i = 0; i < 3000 && engine_->stats().running > 0; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return engine_->stats().running == 0;
  }

  std::optional<ScriptedEngine> engine_;
  std::optional<std::chrono::seconds> request_timeout_;
  std::optional<Server> server_;
  int port_ = 0;
  std::thread thread_;
};

}  // namespace fathom::test
