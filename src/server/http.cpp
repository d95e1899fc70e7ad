#include "server/http.h"

#include <fmt/format.h>
#include <httplib.h>
#include <poll.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <random>
#include <thread>

#include "core/error.h"
#include "core/log.h"

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

// Threads as connections need them, up to a limit; those that have nothing to do stay for the next ones.
class ThreadPerConnection final : public httplib::TaskQueue {
 public:
  explicit ThreadPerConnection(size_t max_threads) : max_threads_(max_threads) {}

  void enqueue(std::function<void()> task) override {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
    if (n_idle_ < tasks_.size() && threads_.size() < max_threads_) {
      threads_.emplace_back([this] { work(); });
    }
    wake_.notify_one();
  }

  void shutdown() override {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    wake_.notify_all();
    for (std::thread& thread : threads_) {
      thread.join();
    }
  }

 private:
  void work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      ++n_idle_;
      wake_.wait(lock, [this] { return stopping_ || !tasks_.empty(); });
      --n_idle_;
      if (tasks_.empty()) {
        return;
      }
      const std::function<void()> task = std::move(tasks_.front());
      tasks_.pop_front();
      lock.unlock();
      task();
      lock.lock();
    }
  }

  size_t max_threads_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> tasks_;
  std::vector<std::thread> threads_;
  size_t n_idle_ = 0;
  bool stopping_ = false;
};

// One connection's socket, which it does not own, with the limits of HttpLimits.
class Connection final : public httplib::Stream {
 public:
  enum class Part : uint8_t { kHead, kBody };

  Connection(socket_t socket, const HttpLimits& limits) : socket_(socket), limits_(limits) {}

  // False: nothing came in time, the peer has left, or `stopping` became true.
  [[nodiscard]] bool wait_for_request(const std::atomic<bool>& stopping) {
    constexpr milliseconds kStep{200};
    const auto deadline = Clock::now() + limits_.idle_timeout;
    while (!stopping && Clock::now() < deadline) {
      if (wait(POLLIN, kStep)) {
        begin(Part::kHead);
        return !peer_gone();
      }
    }
    return false;
  }

  void begin(Part part) {
    part_ = part;
    n_head_ = 0;
    head_deadline_ = Clock::now() + limits_.head_timeout;
  }

  // The peer closed its side, or broke off. Bytes of a next request do not count as life, but do no harm.
  [[nodiscard]] bool peer_gone() const {
    char byte = 0;
    const ssize_t n = ::recv(socket_, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    return n == 0 || (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR);
  }

  // The request was not read to its end, so the connection cannot serve another one.
  void close_after_response() { close_after_ = true; }
  [[nodiscard]] bool closes() const { return close_after_; }
  [[nodiscard]] bool head_too_large() const { return n_head_ > limits_.max_head_bytes; }

  // Lets the peer read the response before the unread rest of its request makes the kernel reset the connection.
  void linger() {
    ::shutdown(socket_, SHUT_WR);
    const auto deadline = Clock::now() + milliseconds(1000);
    std::array<char, 4096> rest;
    while (Clock::now() < deadline && wait(POLLIN, milliseconds(100)) &&
           ::recv(socket_, rest.data(), rest.size(), MSG_DONTWAIT) > 0) {
    }
  }

  bool is_readable() const override { return wait(POLLIN, limits_.body_timeout); }
  bool is_writable() const override { return !peer_gone() && wait(POLLOUT, limits_.write_timeout); }

  ssize_t read(char* bytes, size_t size) override {
    milliseconds patience = limits_.body_timeout;
    if (part_ == Part::kHead) {
      if (head_too_large()) {
        return -1;
      }
      patience = std::max(std::chrono::duration_cast<milliseconds>(head_deadline_ - Clock::now()), milliseconds(0));
    }
    if (begin_ == end_) {
      if (!wait(POLLIN, patience)) {
        return -1;
      }
      const ssize_t n = retry([&] { return ::recv(socket_, buffer_.data(), buffer_.size(), 0); });
      if (n <= 0) {
        return n;
      }
      begin_ = 0;
      end_ = static_cast<size_t>(n);
    }
    const size_t n = std::min(size, end_ - begin_);
    std::memcpy(bytes, buffer_.data() + begin_, n);
    begin_ += n;
    if (part_ == Part::kHead) {
      n_head_ += n;
    }
    return static_cast<ssize_t>(n);
  }

  ssize_t write(const char* bytes, size_t size) override {
    if (!wait(POLLOUT, limits_.write_timeout)) {
      return -1;
    }
    return retry([&] { return ::send(socket_, bytes, size, MSG_NOSIGNAL | MSG_DONTWAIT); });
  }

  void get_remote_ip_and_port(std::string& ip, int& port) const override { address(::getpeername, ip, port); }
  void get_local_ip_and_port(std::string& ip, int& port) const override { address(::getsockname, ip, port); }
  socket_t socket() const override { return socket_; }
  // Bytes that were received but not read yet: a request that came with the one before.
  [[nodiscard]] bool has_buffered() const { return begin_ < end_; }

 private:
  [[nodiscard]] bool wait(short events, milliseconds timeout) const {
    if ((events & POLLIN) != 0 && has_buffered()) {
      return true;
    }
    pollfd poll_fd{.fd = socket_, .events = events, .revents = 0};
    return retry([&] { return ::poll(&poll_fd, 1, static_cast<int>(timeout.count())); }) > 0;
  }

  template <class Call>
  static auto retry(const Call& call) -> decltype(call()) {
    auto result = call();
    while (result < 0 && errno == EINTR) {
      result = call();
    }
    return result;
  }

  template <class GetName>
  void address(GetName get_name, std::string& ip, int& port) const {
    sockaddr_storage name = {};
    socklen_t size = sizeof name;
    std::array<char, NI_MAXHOST> host = {};
    std::array<char, NI_MAXSERV> service = {};
    if (get_name(socket_, reinterpret_cast<sockaddr*>(&name), &size) == 0 &&
        ::getnameinfo(reinterpret_cast<const sockaddr*>(&name), size, host.data(), host.size(), service.data(),
                      service.size(), NI_NUMERICHOST | NI_NUMERICSERV) == 0) {
      ip = host.data();
      port = std::atoi(service.data());
    }
  }

  socket_t socket_;
  const HttpLimits& limits_;
  std::array<char, 16384> buffer_;
  size_t begin_ = 0;
  size_t end_ = 0;
  Part part_ = Part::kHead;
  size_t n_head_ = 0;
  Clock::time_point head_deadline_;
  bool close_after_ = false;
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
    new_task_queue = [this] {
      return new ThreadPerConnection(static_cast<size_t>(limits_.max_connections) + kSpareThreads);
    };
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
        const bool large = current_->head_too_large() || response.status == 414;
        send(unknown, hooks_.on_refusal(*unknown, large ? HttpRefusal::kHeadTooLarge : HttpRefusal::kBadRequest),
             response, Clock::now());
        current_->close_after_response();
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

  [[nodiscard]] int connections() const { return n_connections_; }

 private:
  bool process_and_close_socket(socket_t socket) override {
    const bool busy = ++n_connections_ > limits_.max_connections;
    Connection connection(socket, limits_);
    current_ = &connection;
    busy_ = busy;
    bool go_on = true;
    while (go_on && connection.wait_for_request(stopping_)) {
      bool closed = false;
      go_on = process_request(connection, busy, closed, [&](httplib::Request& request) { prepare(request); });
      go_on = go_on && !closed && !busy && !connection.closes();
    }
    if (connection.closes()) {
      connection.linger();
    }
    current_ = nullptr;
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
    current_->begin(Connection::Part::kBody);
  }

  void dispatch(const httplib::Request& in, httplib::Response& out, const httplib::ContentReader* reader) {
    const auto start = Clock::now();
    const auto shared = std::make_shared<HttpRequest>(make_request(in));
    HttpRequest& request = *shared;
    const auto refuse = [&](HttpRefusal refusal) {
      close_after(out);
      send(shared, hooks_.on_refusal(request, refusal), out, start);
    };
    if (busy_) {
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
    current_->close_after_response();
    out.set_header("Connection", "close");
  }

  HttpRequest make_request(const httplib::Request& in) const {
    HttpRequest request{.id = new_request_id(),
                        .method = in.method,
                        .path = in.path,
                        .body = {},
                        .remote = in.remote_addr,
                        .peer_gone = [connection = current_] { return connection->peer_gone(); }};
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
  const Route* find_route(const std::string& method, const std::string& path) const {
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

  bool has_path(const std::string& path) const {
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
    out.set_chunked_content_provider(
        response.content_type,
        [stream = std::move(response.stream)](size_t, httplib::DataSink& sink) {
          SinkStream writer(sink);
          try {
            stream(writer);
            if (writer.send({})) {
              sink.done();
              return true;
            }
          } catch (const std::exception& error) {
            log_error(fmt::format("a stream broke off: {}", error.what()));
          }
          return false;
        },
        [done](bool) { done(); });
  }

  HttpLimits limits_;
  HttpHooks hooks_;
  bool cors_;
  std::atomic<int> n_connections_ = 0;
  std::atomic<bool> serving_ = false;
  std::atomic<bool> stopping_ = false;

  // The connection that this thread serves: httplib hands handlers the request alone.
  static thread_local Connection* current_;
  static thread_local bool busy_;
};

thread_local Connection* HttpServer::Impl::current_ = nullptr;
thread_local bool HttpServer::Impl::busy_ = false;

HttpServer::HttpServer(const HttpLimits& limits, HttpHooks hooks, bool cors)
    : impl_(std::make_unique<Impl>(limits, std::move(hooks), cors)) {}
HttpServer::~HttpServer() = default;

void HttpServer::route(const std::string& method, const std::string& path, HttpHandler handler, Access access) {
  impl_->routes[{path, method}] = {std::move(handler), access};
}

int HttpServer::bind(const std::string& host, int port) { return impl_->bind(host, port); }
void HttpServer::serve() { impl_->serve(); }
void HttpServer::stop() { impl_->halt(); }
int HttpServer::connections() const { return impl_->connections(); }

}  // namespace fathom
