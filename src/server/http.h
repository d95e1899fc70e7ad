// HTTP/1.1 as the rest of the server sees it: whole requests in, whole responses or streams out. A thread per open
// connection (ADR 0008); http.cpp is the only file that includes cpp-httplib.
#pragma once

#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace fathom {

using HttpHeaders = std::vector<std::pair<std::string, std::string>>;

// Lives until its response was sent, so a stream may refer to it.
struct HttpRequest {
  std::string id;  // unique; the response names it in x-request-id
  std::string method;
  std::string path;  // decoded, without the query
  std::string body;
  std::string remote;  // the peer's address
  HttpHeaders headers = {};
  // Whether the peer has closed the connection. Cheap; may be asked at any time until the response is sent.
  std::function<bool()> peer_gone = [] { return false; };
  // Handlers append " key=value" pairs to what is logged about this request.
  std::string log = {};

  // The first header of that name, whatever its case; empty when there is none.
  [[nodiscard]] std::string_view header(std::string_view name) const;
};

// The body of a response while it is sent. Writing blocks the connection's own thread until the peer has taken the
// bytes, and nobody else's.
class HttpStream {
 public:
  virtual ~HttpStream() = default;
  // False: the peer is gone, or takes nothing any more (HttpLimits::write_timeout); nothing more needs to be sent.
  virtual bool send(std::string_view bytes) = 0;
  [[nodiscard]] virtual bool alive() = 0;
};

struct HttpResponse {
  int status = 200;
  std::string content_type = "application/json";
  HttpHeaders headers = {};
  std::string body = {};
  // Set: sends the body itself, after the headers, with chunked encoding. What it throws ends the connection.
  std::function<void(HttpStream&)> stream = {};
};

struct HttpLimits {
  int max_connections = 256;  // further ones are told to come back
  size_t max_body_bytes = size_t{64} << 20;
  size_t max_head_bytes = size_t{64} << 10;       // request line and headers
  std::chrono::milliseconds head_timeout{15000};  // from the first byte of a request to the end of its headers
  std::chrono::milliseconds body_timeout{60000};  // between two pieces of the body
  std::chrono::milliseconds write_timeout{60000};
  std::chrono::milliseconds idle_timeout{75000};  // between two requests of a connection
};

// Why a request never reached a handler.
enum class HttpRefusal : uint8_t { kBadRequest, kNotFound, kMethodNotAllowed, kBodyTooLarge, kHeadTooLarge, kBusy };

// What the server does with every request, whatever its route.
struct HttpHooks {
  std::function<void(const HttpRequest&)> authorise;  // throws to refuse; not asked for public routes
  std::function<HttpResponse(const HttpRequest&, std::exception_ptr)> on_error;
  std::function<HttpResponse(const HttpRequest&, HttpRefusal)> on_refusal;
  std::function<void(const HttpRequest&, int status, double seconds)> on_done;  // the response was sent, or was not
};

using HttpHandler = std::function<HttpResponse(HttpRequest&)>;

class HttpServer {
 public:
  HttpServer(const HttpLimits& limits, HttpHooks hooks, bool cors);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  enum class Access : uint8_t { kPublic, kWithKey };
  // Before serve(). A path that ends in "/" takes everything below it that no other route takes.
  void route(const std::string& method, const std::string& path, HttpHandler handler, Access access = Access::kWithKey);

  // Returns the port, which is a free one when `port` is 0. Throws Error kIo.
  int bind(const std::string& host, int port);
  // Until stop(), and until every connection is over.
  void serve();
  // From any thread: no new requests. Those in progress go on.
  void stop();
  // From any thread, after stop(): waits for no peer any more.
  void break_off();
  [[nodiscard]] int connections() const;  // open ones

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace fathom
