#include "server/http.h"

#include <fmt/format.h>
#include <httplib.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <map>
#include <optional>
#include <random>
#include <thread>

#include "core/error.h"
#include "core/log.h"
#include "server/growing_threads.h"
#include "server/http_socket.h"

namespace fathom {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

bool equal_ignoring_case(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, [](unsigned char x, unsigned char y) { return std::tolower(x) == std::tolower(y); });
}

std::string new_request_id() {
  thread_local std::mt19937_64 random{std::random_device{}()};
  return fmt::format("req_{:016x}{:016x}", random(), random());
}

// Threads as httplib wants them.
class TaskQueue final : public httplib::TaskQueue {
 public:
  explicit TaskQueue(size_t max_threads) : threads_(max_threads) {}
  void enqueue(std::function<void()> task) override { threads_.start(std::move(task)); }
  void shutdown() override { threads_.join(); }

 private:
  GrowingThreads threads_;
};

// A connection as httplib wants it.
class Connection final : public httplib::Stream {
 public:
  Connection(int socket, const HttpLimits& limits, const std::atomic<bool>& broken) : socket_(socket, limits, broken) {}

  [[nodiscard]] HttpSocket& http() { return socket_; }
  [[nodiscard]] bool is_readable() const override { return socket_.readable(); }
  [[nodiscard]] bool is_writable() const override { return !socket_.peer_gone() && socket_.writable(); }
  ssize_t read(char* bytes, size_t size) override { return socket_.read(bytes, size); }
  ssize_t write(const char* bytes, size_t size) override { return socket_.write(bytes, size); }
  void get_remote_ip_and_port(std::string& ip, int& port) const override {
    ip = socket_.remote_address();
    port = 0;
  }
  void get_local_ip_and_port(std::string& ip, int& port) const override {
    ip.clear();
    port = 0;
  }
  [[nodiscard]] socket_t socket() const override { return socket_.fd(); }

 private:
  HttpSocket socket_;
};

class SinkStream final : public HttpStream {
 public:
  explicit SinkStream(httplib::DataSink& sink) : sink_(sink) {}
  bool send(std::string_view bytes) override {
    alive_ = alive_ && (bytes.empty() || sink_.write(bytes.data(), bytes.size()));
    return alive_;
  }
  bool alive() override { return alive_ && sink_.is_writable(); }

 private:
  httplib::DataSink& sink_;
  bool alive_ = true;
};

}  // namespace

std::string_view HttpRequest::header(std::string_view name) const {
  const auto found = std::ranges::find_if(headers, [&](const auto& h) { return equal_ignoring_case(h.first, name); });
  return found == headers.end() ? std::string_view{} : std::string_view(found->second);
}

// httplib::Server with connections of our own. Overrides what httplib::SSLServer overrides for the same purpose.
class HttpServer::Impl final : public httplib::Server {
 public:
  Impl(const HttpLimits& limits, HttpHooks hooks, bool cors) : limits_(limits), hooks_(std::move(hooks)), cors_(cors) {
    set_tcp_nodelay(true);
    // Without SO_REUSEPORT, which would let a second server take half of the connections.
    set_socket_options([](socket_t socket) {
      const int yes = 1;
      ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    });
    // Some more than there may be connections, for those that are told to come back.
    constexpr size_t kSpareThreads = 8;
    new_task_queue = [this] { return new TaskQueue(static_cast<size_t>(limits_.max_connections) + kSpareThreads); };
    const auto without_body = [this](const httplib::Request& request, httplib::Response& response) {
      dispatch(request, response, nullptr);
    };
    const auto with_body = [this](const httplib::Request& request, httplib::Response& response,
                                  const httplib::ContentReader& reader) { dispatch(request, response, &reader); };
    Get(".*", without_body);
    Options(".*", without_body);
    Post(".*", with_body);
    Put(".*", with_body);
    Patch(".*", with_body);
    Delete(".*", with_body);
    // What httplib refuses before there is a request, say because of a malformed head.
    set_error_handler(httplib::Server::Handler([this](const httplib::Request&, httplib::Response& response) {
      if (response.body.empty()) {
        const auto unknown = std::make_shared<HttpRequest>();
        unknown->id = new_request_id();
        const bool large = t_connection->head_too_large() || response.status == 414;
        send(unknown, hooks_.on_refusal(*unknown, large ? HttpRefusal::kHeadTooLarge : HttpRefusal::kBadRequest),
             response, Clock::now());
        t_connection->close_after_response();
      }
    }));
  }

  struct Route {
    HttpHandler handler;
    Access access;
  };
  std::map<std::pair<std::string, std::string>, Route> routes;  // by path and method

  int bind(const std::string& host, int port) {
    errno = 0;
    const int bound = port == 0 ? bind_to_any_port(host) : bind_to_port(host, port) ? port : -1;
    if (bound < 0) {
      throw Error(ErrorCode::kIo, fmt::format("{}:{}: cannot listen: {}", host, port,
                                              errno == 0 ? "no such address" : std::strerror(errno)));
    }
    // httplib's own queue of connections that wait to be accepted holds five.
    constexpr int kBacklog = 1024;
    ::listen(svr_sock_, kBacklog);
    return bound;
  }

  void serve() {
    serving_ = true;
    if (!stopping_) {
      listen_after_bind();
    }
    serving_ = false;
  }

  void halt() {
    stopping_ = true;
    while (serving_ && !is_running()) {
      std::this_thread::sleep_for(milliseconds(1));
    }
    httplib::Server::stop();
  }

  void break_off() { broken_ = true; }
  [[nodiscard]] int connections() const { return n_connections_; }

 private:
  bool process_and_close_socket(socket_t socket) override {
    const bool busy = ++n_connections_ > limits_.max_connections;
    Connection connection(socket, limits_, broken_);
    HttpSocket& http = connection.http();
    t_connection = &http;
    t_busy = busy;
    bool go_on = true;
    while (go_on && http.wait_for_request(stopping_)) {
      bool closed = false;
      go_on = process_request(connection, busy, closed, [&](httplib::Request& request) { prepare(request); });
      go_on = go_on && !closed && !busy && !http.closes();
    }
    if (http.closes()) {
      http.linger();
    }
    t_connection = nullptr;
    ::shutdown(socket, SHUT_RDWR);
    ::close(socket);
    --n_connections_;
    return true;
  }

  // After the head was read. Neither a part of a response nor a compressed one can be had.
  void prepare(httplib::Request& request) {
    request.ranges.clear();
    request.headers.erase("Range");
    request.headers.erase("Accept-Encoding");
    t_connection->begin_body();
  }

  void dispatch(const httplib::Request& in, httplib::Response& out, const httplib::ContentReader* reader) {
    const auto start = Clock::now();
    const auto shared = std::make_shared<HttpRequest>(make_request(in));
    HttpRequest& request = *shared;
    const auto refuse = [&](HttpRefusal refusal) {
      close_after(out);
      send(shared, hooks_.on_refusal(request, refusal), out, start);
    };
    if (t_busy) {
      return refuse(HttpRefusal::kBusy);
    }
    if (cors_) {
      allow_origins(in, out);
    }
    if (in.method == "OPTIONS") {
      return send(shared, {.status = 204, .content_type = {}}, out, start);
    }
    const Route* route = find_route(request.method == "HEAD" ? "GET" : request.method, request.path);
    if (route == nullptr) {
      return refuse(has_path(request.path) ? HttpRefusal::kMethodNotAllowed : HttpRefusal::kNotFound);
    }
    HttpResponse response;
    bool body_read = reader == nullptr;
    try {
      if (route->access == Access::kWithKey) {
        hooks_.authorise(request);
      }
      if (const auto refusal = read_body(in, reader, request)) {
        return refuse(*refusal);
      }
      body_read = true;
      response = route->handler(request);
    } catch (...) {
      response = hooks_.on_error(request, std::current_exception());
      if (!body_read) {
        close_after(out);
      }
    }
    send(shared, std::move(response), out, start);
  }

  // What is left of the request on the connection cannot be told from a next one.
  static void close_after(httplib::Response& out) {
    t_connection->close_after_response();
    out.set_header("Connection", "close");
  }

  [[nodiscard]] HttpRequest make_request(const httplib::Request& in) const {
    HttpRequest request{.id = new_request_id(),
                        .method = in.method,
                        .path = in.path,
                        .body = {},
                        .remote = in.remote_addr,
                        .peer_gone = [connection = t_connection] { return connection->peer_gone(); }};
    if (request.path.size() > 1 && request.path.ends_with('/')) {
      request.path.pop_back();
    }
    request.headers.assign(in.headers.begin(), in.headers.end());
    return request;
  }

  std::optional<HttpRefusal> read_body(const httplib::Request& in, const httplib::ContentReader* reader,
                                       HttpRequest& request) const {
    const bool has_body = in.has_header("Content-Length") || in.has_header("Transfer-Encoding");
    if (reader == nullptr || !has_body) {
      return std::nullopt;
    }
    if (in.is_multipart_form_data()) {
      return HttpRefusal::kBadRequest;
    }
    if (in.get_header_value<uint64_t>("Content-Length") > limits_.max_body_bytes) {
      return HttpRefusal::kBodyTooLarge;
    }
    bool too_large = false;
    const bool complete = (*reader)([&](const char* bytes, size_t size) {
      too_large = request.body.size() + size > limits_.max_body_bytes;
      if (!too_large) {
        request.body.append(bytes, size);
      }
      return !too_large;
    });
    if (too_large) {
      return HttpRefusal::kBodyTooLarge;
    }
    return complete ? std::nullopt : std::optional(HttpRefusal::kBadRequest);
  }

  // The longest route that ends in "/" and begins the path, or the path's own.
  [[nodiscard]] const Route* find_route(const std::string& method, const std::string& path) const {
    if (const auto exact = routes.find({path, method}); exact != routes.end()) {
      return &exact->second;
    }
    for (size_t end = path.rfind('/'); end != std::string::npos && end > 0; end = path.rfind('/', end - 1)) {
      if (const auto found = routes.find({path.substr(0, end + 1), method}); found != routes.end()) {
        return &found->second;
      }
    }
    return nullptr;
  }

  [[nodiscard]] bool has_path(const std::string& path) const {
    return find_route("GET", path) != nullptr || find_route("POST", path) != nullptr;
  }

  static void allow_origins(const httplib::Request& in, httplib::Response& out) {
    out.set_header("Access-Control-Allow-Origin", "*");
    out.set_header("Access-Control-Allow-Methods", "GET, POST, OPTIONS");
    const std::string wanted = in.get_header_value("Access-Control-Request-Headers");
    out.set_header("Access-Control-Allow-Headers", wanted.empty() ? "Authorization, Content-Type" : wanted);
    out.set_header("Access-Control-Expose-Headers", "X-Request-Id");
    out.set_header("Access-Control-Max-Age", "600");
  }

  void send(const std::shared_ptr<HttpRequest>& request, HttpResponse response, httplib::Response& out,
            Clock::time_point start) {
    out.status = response.status;
    out.set_header("X-Request-Id", request->id);
    for (const auto& [name, value] : response.headers) {
      out.set_header(name, value);
    }
    const auto done = [this, request, status = response.status, start] {
      hooks_.on_done(*request, status, std::chrono::duration<double>(Clock::now() - start).count());
    };
    if (!response.stream) {
      if (!response.content_type.empty()) {
        out.set_content(response.body, response.content_type);
      }
      return done();
    }
    // The stream refers to the request, and what it holds ends before the request is logged.
    struct Body {
      std::shared_ptr<HttpRequest> request;
      std::function<void(HttpStream&)> stream;
    };
    const auto body = std::make_shared<Body>(Body{request, std::move(response.stream)});
    out.set_chunked_content_provider(
        response.content_type,
        [body](size_t, httplib::DataSink& sink) {
          SinkStream writer(sink);
          try {
            body->stream(writer);
          } catch (const std::exception& error) {
            log_error(fmt::format("a stream broke off: {}", error.what()));
            return false;
          }
          body->stream = nullptr;
          if (!writer.send({})) {
            return false;
          }
          sink.done();
          return true;
        },
        [done](bool) { done(); });
  }

  HttpLimits limits_;
  HttpHooks hooks_;
  bool cors_;
  std::atomic<int> n_connections_ = 0;
  std::atomic<bool> serving_ = false;
  std::atomic<bool> stopping_ = false;
  std::atomic<bool> broken_ = false;

  // The connection that this thread serves: httplib hands handlers the request alone.
  static thread_local HttpSocket* t_connection;
  static thread_local bool t_busy;
};

thread_local HttpSocket* HttpServer::Impl::t_connection = nullptr;
thread_local bool HttpServer::Impl::t_busy = false;

HttpServer::HttpServer(const HttpLimits& limits, HttpHooks hooks, bool cors)
    : impl_(std::make_unique<Impl>(limits, std::move(hooks), cors)) {}
HttpServer::~HttpServer() = default;

void HttpServer::route(const std::string& method, const std::string& path, HttpHandler handler, Access access) {
  impl_->routes[{path, method}] = {std::move(handler), access};
}

int HttpServer::bind(const std::string& host, int port) { return impl_->bind(host, port); }
void HttpServer::serve() { impl_->serve(); }
void HttpServer::stop() { impl_->halt(); }
void HttpServer::break_off() { impl_->break_off(); }
int HttpServer::connections() const { return impl_->connections(); }

}  // namespace fathom
