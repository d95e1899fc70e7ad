#include "server/server.h"

#include <fmt/format.h>

#include <functional>
#include <initializer_list>
#include <set>
#include <thread>

#include "core/log.h"
#include "core/printable.h"
#include "server/anthropic_messages.h"
#include "server/api_error.h"
#include "server/api_keys.h"
#include "server/chat_endpoint.h"
#include "server/completions.h"
#include "server/info_endpoints.h"
#include "server/open_ai_responses.h"
#include "server/openai_chat.h"
#include "server/service.h"

namespace fathom {
namespace {

using std::chrono::milliseconds;

ApiError refusal_error(const HttpRequest& request, HttpRefusal refusal) {
  switch (refusal) {
    case HttpRefusal::kNotFound:
      return {ApiErrorKind::kNotFound, fmt::format("there is nothing at {} {}", request.method, request.path)};
    case HttpRefusal::kMethodNotAllowed:
      return {ApiErrorKind::kMethodNotAllowed, fmt::format("{} does not take {}", request.path, request.method)};
    case HttpRefusal::kBodyTooLarge:
      return {ApiErrorKind::kTooLarge, "the body of the request is larger than the server allows"};
    case HttpRefusal::kHeadTooLarge:
      return {ApiErrorKind::kTooLarge, "the head of the request is larger than the server allows"};
    case HttpRefusal::kBusy:
      return {ApiErrorKind::kOverloaded, "the server has as many connections as it allows"};
    case HttpRefusal::kBadRequest:
      break;
  }
  return {ApiErrorKind::kInvalidRequest, "not a complete HTTP request of a kind that this server takes"};
}

HttpResponse count_tokens(Service& service, HttpRequest& request) { return count_anthropic_tokens(service, request); }

}  // namespace

class Server::Impl {
 public:
  Impl(const ServedModel& model, const ServerConfig& config)
      : config_(config),
        keys_(config.api_keys),
        service_{.model = model, .keep_alive = config.keep_alive, .log_prompts = config.log_prompts},
        http_(config.limits, hooks(), config.cors) {
    add_routes();
  }

  int bind() { return http_.bind(config_.host, config_.port); }
  void serve() { http_.serve(); }

  void shut_down(milliseconds grace) {
    http_.stop();
    wait_for_connections(grace);
    service_.ending = true;
    // Time to tell those that listen.
    constexpr milliseconds kLastWords{1000};
    wait_for_connections(kLastWords);
    http_.break_off();
  }

 private:
  void wait_for_connections(milliseconds patience) const {
    const auto deadline = std::chrono::steady_clock::now() + patience;
    while (http_.connections() > 0 && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::sleep_for(milliseconds(10));
    }
  }

  HttpHooks hooks() {
    HttpHooks hooks;
    hooks.authorise = [this](const HttpRequest& request) { keys_.require(request); };
    hooks.on_error = [this](const HttpRequest& request, const std::exception_ptr& failure) {
      return refuse(request, to_api_error(failure));
    };
    hooks.on_refusal = [this](const HttpRequest& request, HttpRefusal refusal) {
      return refuse(request, refusal_error(request, refusal));
    };
    hooks.on_done = [this](const HttpRequest& request, int status, double seconds) {
      // Only paths that exist become labels: others are anybody's choice.
      service_.metrics.count_response(routes_.contains(request.path) ? request.path : "other", status);
      const std::string line =
          fmt::format("request id={} peer={} {} {} status={} ms={:.1f}{}", request.id, request.remote, request.method,
                      printable(request.path), status, 1e3 * seconds, request.log);
      // Probes come every few seconds.
      request.log.empty() && status < 400 ? log_debug(line) : log_info(line);
    };
    return hooks;
  }

  HttpResponse refuse(const HttpRequest& request, const ApiError& error) {
    service_.metrics.count_error(kind_name(error.kind()));
    return error_response(error, api_family(request), request.id);
  }

  void add(const std::string& method, std::initializer_list<const char*> paths,
           HttpResponse (*handler)(Service&, HttpRequest&), HttpServer::Access access = HttpServer::Access::kWithKey) {
    for (const char* path : paths) {
      routes_.insert(path);
      http_.route(
          method, path, [this, handler](HttpRequest& request) { return handler(service_, request); }, access);
    }
  }

  void add_chat(std::initializer_list<const char*> paths, const ReadChat& read) {
    for (const char* path : paths) {
      routes_.insert(path);
      http_.route("POST", path, [this, read](HttpRequest& request) {
        if (service_.log_prompts) {
          log_info(fmt::format("prompt id={} {}", request.id, request.body));
        }
        return serve_chat(service_, request, read);
      });
    }
  }

  void add_routes() {
    add_chat({"/v1/chat/completions", "/chat/completions"}, read_openai_chat);
    add_chat({"/v1/responses", "/responses"}, read_open_ai_responses);
    add_chat({"/v1/messages", "/anthropic/v1/messages"}, read_anthropic_messages);
    add("POST", {"/v1/messages/count_tokens", "/anthropic/v1/messages/count_tokens"}, count_tokens);
    add("POST", {"/v1/completions", "/completions", "/beta/completions", "/beta/v1/completions"}, serve_completion);
    add("GET", {"/v1/models", "/models", "/anthropic/v1/models"}, list_models);
    add("GET", {"/v1/models/", "/models/", "/anthropic/v1/models/"}, show_model);
    add("POST", {"/tokenize"}, tokenize_text);
    add("POST", {"/detokenize"}, detokenize_ids);
    add("GET", {"/props", "/v1/props"}, show_props);
    add("GET", {"/health", "/healthz"}, show_health, HttpServer::Access::kPublic);
    add("GET", {"/ready", "/readyz"}, show_readiness, HttpServer::Access::kPublic);
    routes_.insert("/metrics");
    http_.route("GET", "/metrics", [this](HttpRequest&) {
      return HttpResponse{.content_type = "text/plain; version=0.0.4; charset=utf-8",
                          .body = service_.metrics.text(service_.model.engine.stats(), http_.connections())};
    });
  }

  ServerConfig config_;
  ApiKeys keys_;
  Service service_;
  std::set<std::string, std::less<>> routes_;
  HttpServer http_;
};

Server::Server(const ServedModel& model, const ServerConfig& config) : impl_(std::make_unique<Impl>(model, config)) {}
Server::~Server() = default;

int Server::bind() { return impl_->bind(); }
void Server::serve() { impl_->serve(); }
void Server::shut_down(milliseconds grace) { impl_->shut_down(grace); }

}  // namespace fathom
