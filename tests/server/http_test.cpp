// The HTTP layer and the endpoints that generate nothing, from outside.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>

#include "core/prompt_text.h"
#include "support/test_server.h"

namespace fathom::test {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;
using testing::StartsWith;

constexpr const char* kHello = R"({"messages": [{"role": "user", "content": "Hi"}]})";
constexpr const char* kHelloStream = R"({"messages": [{"role": "user", "content": "Hi"}], "stream": true})";

// A connection that sends what no HTTP client would.
class RawConnection {
 public:
  explicit RawConnection(int port, int receive_buffer = 0) : fd_(::socket(AF_INET, SOCK_STREAM, 0)) {
    if (receive_buffer > 0) {
      ::setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
    }
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    ::inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
    EXPECT_EQ(::connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  }
  ~RawConnection() { ::close(fd_); }
  RawConnection(const RawConnection&) = delete;
  RawConnection& operator=(const RawConnection&) = delete;

  void send(const std::string& bytes) const {
    EXPECT_EQ(::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
  }
  void post(const std::string& path, const std::string& body) const {
    send("POST " + path + " HTTP/1.1\r\nHost: x\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body);
  }
  // What comes until `text` is in it, or the end.
  [[nodiscard]] std::string read_until(const std::string& text) const {
    std::string all;
    std::array<char, 4096> buffer;
    for (ssize_t n = 1; n > 0 && all.find(text) == std::string::npos;) {
      n = ::recv(fd_, buffer.data(), buffer.size(), 0);
      all.append(buffer.data(), static_cast<size_t>(std::max<ssize_t>(n, 0)));
    }
    return all;
  }

 private:
  int fd_;
};

class HttpTest : public ServerTest {};

TEST_F(HttpTest, ShowsItsModel) {
  start(says("x"));
  const Json list = expect_json(get("/v1/models"));
  EXPECT_EQ(list.at("object"), "list");
  EXPECT_EQ(list.at("data").at(0).at("id"), "tiny");
  EXPECT_EQ(list.at("data").at(0).at("context_length"), 4096);
  EXPECT_EQ(expect_json(get("/v1/models/some/name")).at("id"), "some/name");
  const Json anthropic = expect_json(get("/v1/models", {{"anthropic-version", "2023-06-01"}}));
  EXPECT_EQ(
      anthropic.at("data").at(0),
      (Json{{"type", "model"}, {"id", "tiny"}, {"display_name", "tiny"}, {"created_at", "2023-11-14T22:13:20Z"}}));
  EXPECT_EQ(anthropic.at("first_id"), "tiny");
  EXPECT_EQ(expect_json(get("/props")).at("max_context"), 4096);
}

TEST_F(HttpTest, TellsWhetherItLivesAndCanServe) {
  start(says("x"), {.api_keys = {"secret"}});
  EXPECT_EQ(expect_json(get("/health")).at("status"), "ok");
  EXPECT_EQ(expect_json(get("/ready")).at("status"), "ready");
}

TEST_F(HttpTest, TokenizesAndBack) {
  start(says("x"));
  const Json tokens = expect_json(post("/tokenize", R"({"content": "Hello <think>"})"));
  EXPECT_EQ(tokens.at("tokens").get<std::vector<TokenId>>(), bundled_tokenizer().encode("Hello <think>"));
  EXPECT_EQ(tokens.at("count"), tokens.at("tokens").size());
  const Json text = expect_json(post("/detokenize", Json{{"tokens", tokens.at("tokens")}}.dump()));
  EXPECT_EQ(text.at("content"), "Hello <think>");
  const Json chat = expect_json(post("/tokenize", kHello));
  EXPECT_THAT(bundled_tokenizer().decode(chat.at("tokens").get<std::vector<TokenId>>()), HasSubstr("Hi"));
  EXPECT_THAT(expect_json(post("/tokenize", "{}"), 400).dump(), HasSubstr("content: expected"));
  EXPECT_THAT(expect_json(post("/detokenize", R"({"tokens": [-1]})"), 400).dump(), HasSubstr("tokens[0]: expected"));
}

TEST_F(HttpTest, CompletesText) {
  start(says(" world"));
  const Json json = expect_json(post("/v1/completions", R"({"prompt": "Hello", "max_tokens": 50})"));
  EXPECT_EQ(json.at("object"), "text_completion");
  EXPECT_EQ(json.at("choices").at(0).at("text"), " world");
  EXPECT_EQ(json.at("choices").at(0).at("finish_reason"), "stop");
  EXPECT_EQ(bundled_tokenizer().decode(engine_->requests().at(0).prompt), std::string(literal::kBos) + "Hello");
  const Json echoed = expect_json(post("/v1/completions", R"({"prompt": "Hello", "echo": true, "n": 2})"));
  EXPECT_EQ(echoed.at("choices").at(1).at("text"), "Hello world");
  const Json ids = expect_json(post("/v1/completions", R"({"prompt": [17, 18], "logprobs": 1, "stop": "wor"})"));
  EXPECT_EQ(engine_->requests().back().prompt, (std::vector<TokenId>{17, 18}));
  EXPECT_EQ(ids.at("choices").at(0).at("text"), " ");
  EXPECT_EQ(ids.at("choices").at(0).at("logprobs").at("text_offset").at(0), 0);
  const std::vector<Json> events = stream("/v1/completions", R"({"prompt": ["a", "b"], "stream": true})");
  std::vector<std::string> texts(2);
  for (const Json& event : events) {
    if (event != "[DONE]") {
      const Json& choice = event.at("choices").at(0);
      texts.at(choice.at("index").get<size_t>()) += choice.at("text").get<std::string>();
    }
  }
  EXPECT_THAT(texts, testing::ElementsAre(" world", " world"));
}

TEST_F(HttpTest, RefusesTextsThatItCannotComplete) {
  start(says("x"));
  const auto error = [&](const std::string& body) {
    return expect_json(post("/v1/completions", body), 400).at("error").at("message").get<std::string>();
  };
  EXPECT_THAT(error("{}"), StartsWith("prompt: expected a string"));
  EXPECT_THAT(error(R"({"prompt": [[]]})"), StartsWith("prompt[0]: expected"));
  EXPECT_THAT(error(R"({"prompt": [99999999]})"), StartsWith("prompt[0]: expected a token id"));
  EXPECT_THAT(error(R"({"prompt": "a", "suffix": "b"})"), StartsWith("suffix: this model has no tokens"));
  EXPECT_THAT(error(R"({"prompt": "a", "logprobs": 21})"), StartsWith("logprobs: expected"));
}

TEST_F(HttpTest, AsksForAKey) {
  start(says("x"), {.api_keys = {"first", "second"}});
  EXPECT_EQ(expect_json(post("/v1/chat/completions", kHello), 401).at("error").at("code"), "invalid_api_key");
  const httplib::Headers wrong = {{"Authorization", "Bearer secnd"}};
  static_cast<void>(expect_json(post("/v1/chat/completions", kHello, wrong), 401));
  static_cast<void>(expect_json(get("/v1/models"), 401));
  static_cast<void>(expect_json(get("/metrics"), 401));
  static_cast<void>(expect_json(post("/v1/chat/completions", kHello, {{"Authorization", "Bearer second"}})));
  static_cast<void>(expect_json(post("/v1/chat/completions", kHello, {{"x-api-key", "first"}})));
  const Json anthropic = expect_json(post("/v1/messages", "{}"), 401);
  EXPECT_EQ(anthropic.at("error").at("type"), "authentication_error");
  EXPECT_THAT(anthropic.at("request_id").get<std::string>(), StartsWith("req_"));
}

TEST_F(HttpTest, KnowsItsPaths) {
  start(says("x"));
  EXPECT_THAT(expect_json(get("/nothing"), 404).at("error").at("message").get<std::string>(), HasSubstr("/nothing"));
  static_cast<void>(expect_json(get("/v1/chat/completions"), 405));
  static_cast<void>(expect_json(post("/health", "{}"), 405));
  static_cast<void>(expect_json(post("/v1/chat/completions/?beta=true", kHello)));
  EXPECT_EQ(expect_json(get("/v1/messages/nothing"), 404).at("error").at("type"), "not_found_error");
}

TEST_F(HttpTest, LetsOtherOriginsInOnlyWhenTold) {
  start(says("x"));
  EXPECT_FALSE(get("/health")->has_header("Access-Control-Allow-Origin"));
  stop();
  start(says("x"), {.cors = true});
  const httplib::Result preflight = client().Options("/v1/chat/completions");
  EXPECT_EQ(preflight->status, 204);
  EXPECT_EQ(preflight->get_header_value("Access-Control-Allow-Origin"), "*");
}

TEST_F(HttpTest, LimitsWhatItReads) {
  ServerConfig config;
  config.limits.max_body_bytes = 1000;
  config.limits.max_head_bytes = 2000;
  start(says("x"), config);
  EXPECT_EQ(expect_json(post("/v1/chat/completions", std::string(2000, ' ')), 413).at("error").at("type"),
            "invalid_request_error");
  EXPECT_EQ(expect_json(post("/v1/messages", std::string(2000, ' ')), 413).at("error").at("type"), "request_too_large");
  const RawConnection connection(port_);
  std::string head = "GET /health HTTP/1.1\r\n";
  for (int i = 0; i < 100; ++i) {
    head += "X-Header-" + std::to_string(i) + ": some value that makes it long\r\n";
  }
  connection.send(head + "\r\n");
  EXPECT_THAT(connection.read_until("\r\n\r\n"), HasSubstr("413"));
  const std::string deep = R"({"messages": )" + std::string(300, '[') + std::string(300, ']') + "}";
  EXPECT_THAT(expect_json(post("/v1/chat/completions", deep), 400).dump(), HasSubstr("nested deeper than"));
}

TEST_F(HttpTest, AnswersWhatIsNoHttp) {
  start(says("x"));
  const RawConnection connection(port_);
  connection.send("HELLO\r\n\r\n");
  EXPECT_THAT(connection.read_until("\r\n\r\n"), HasSubstr("400"));
}

TEST_F(HttpTest, TellsStrangersToComeBackWhenItIsFull) {
  ServerConfig config;
  config.limits.max_connections = 2;
  start(says_forever("word "), config, milliseconds(5));
  const RawConnection first(port_);
  const RawConnection second(port_);
  first.post("/v1/chat/completions", kHelloStream);
  second.post("/v1/chat/completions", kHelloStream);
  EXPECT_THAT(first.read_until("word"), HasSubstr("200 OK"));
  EXPECT_THAT(second.read_until("word"), HasSubstr("200 OK"));
  static_cast<void>(expect_json(post("/v1/chat/completions", kHello), 503));
}

TEST_F(HttpTest, FreesTheSequenceOfAClientThatLeaves) {
  start(says_forever("word "), {}, milliseconds(2));
  {
    const RawConnection connection(port_);
    connection.post("/v1/chat/completions", kHelloStream);
    EXPECT_THAT(connection.read_until("word"), HasSubstr("text/event-stream"));
    EXPECT_EQ(engine_->stats().running, 1);
  }
  EXPECT_TRUE(engine_becomes_idle());
  {
    const RawConnection connection(port_);
    connection.post("/v1/chat/completions", kHello);
    std::this_thread::sleep_for(milliseconds(200));
    EXPECT_EQ(engine_->stats().running, 1);
  }
  EXPECT_TRUE(engine_becomes_idle());
}

TEST_F(HttpTest, FreesTheSequenceOfAClientThatLeavesDuringThePrompt) {
  Script slow = says("x");
  slow.prompt_steps = 1 << 20;
  start(slow, {}, milliseconds(2));
  {
    const RawConnection connection(port_);
    connection.post("/v1/chat/completions", kHelloStream);
    EXPECT_THAT(connection.read_until("assistant"), HasSubstr("text/event-stream"));
  }
  EXPECT_TRUE(engine_becomes_idle());
}

TEST_F(HttpTest, KeepsSilentStreamsAlive) {
  Script slow = says("done");
  slow.prompt_steps = 300;
  start(slow, {.keep_alive = milliseconds(100)}, milliseconds(2));
  const httplib::Result result = post("/v1/chat/completions", kHelloStream);
  ASSERT_TRUE(result);
  EXPECT_THAT(result->body, HasSubstr(": keep-alive\n\n"));
  EXPECT_THAT(result->body, HasSubstr("[DONE]"));
}

TEST_F(HttpTest, ASlowReaderDelaysNobody) {
  start(
      [](const GenerationRequest& request) {
        return request.max_tokens ? says("quick") : says_forever("words and words and words ");
      },
      {}, 4096, std::chrono::microseconds(20));
  const RawConnection slow(port_, 4096);
  slow.post("/v1/chat/completions", kHelloStream);
  EXPECT_THAT(slow.read_until(R"("content":"w)"), HasSubstr("200 OK"));
  // Its socket is full long before this.
  for (int i = 0; i < 20; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    static_cast<void>(expect_json(
        post("/v1/chat/completions", R"({"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 9})")));
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(2));
  }
  EXPECT_TRUE(engine_becomes_idle()) << "the slow reader is cut off";
}

TEST_F(HttpTest, EndsStreamsWhenItEnds) {
  start(says_forever("word "), {}, milliseconds(2));
  const RawConnection connection(port_);
  connection.post("/v1/chat/completions", kHelloStream);
  EXPECT_THAT(connection.read_until("word"), HasSubstr("200 OK"));
  stop();
  EXPECT_THAT(connection.read_until("shutting down"), HasSubstr("shutting down"));
  EXPECT_EQ(engine_->stats().running, 0);
}

TEST_F(HttpTest, LetsStreamsFinishWhenItEnds) {
  Script script;
  for (int i = 0; i < 100; ++i) {
    script.tokens.push_back(bundled_tokenizer().encode(" word").front());
  }
  start(script, {}, milliseconds(3));
  const RawConnection connection(port_);
  connection.post("/v1/chat/completions", kHelloStream);
  EXPECT_THAT(connection.read_until("word"), HasSubstr("200 OK"));
  server_->shut_down(std::chrono::seconds(30));
  EXPECT_THAT(connection.read_until("[DONE]"), HasSubstr("[DONE]"));
}

TEST_F(HttpTest, CountsWhatItDoes) {
  start(says("Hello there, you."));
  static_cast<void>(expect_json(post("/v1/chat/completions", kHello)));
  static_cast<void>(expect_json(post("/v1/chat/completions", "{"), 400));
  static_cast<void>(expect_json(get("/nothing"), 404));
  const std::string text = get("/metrics")->body;
  EXPECT_THAT(text, HasSubstr("fathom_generations_total 1\n"));
  EXPECT_THAT(text, HasSubstr("fathom_time_to_first_token_seconds_count 1\n"));
  const size_t n_tokens = bundled_tokenizer().encode("Hello there, you.").size();
  EXPECT_THAT(text, HasSubstr("fathom_inter_token_seconds_count " + std::to_string(n_tokens - 1) + "\n"));
  EXPECT_THAT(text, HasSubstr("fathom_completion_tokens_total " + std::to_string(n_tokens + 1) + "\n"));
  EXPECT_THAT(text, HasSubstr(R"(fathom_http_responses_total{route="/v1/chat/completions",status="200"} 1)"));
  EXPECT_THAT(text, HasSubstr(R"(fathom_http_responses_total{route="other",status="404"} 1)"));
  EXPECT_THAT(text, HasSubstr(R"(fathom_errors_total{kind="invalid_request"} 1)"));
  EXPECT_THAT(text, HasSubstr("# TYPE fathom_time_to_first_token_seconds histogram\n"));
}

}  // namespace
}  // namespace fathom::test
