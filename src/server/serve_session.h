// What serving a chat and serving a text completion have in common: a session is pulled until its end, its client's
// departure or the server's, and is reported on once it is over.
#pragma once

#include <chrono>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "server/api_error.h"
#include "server/generation_report.h"
#include "server/http.h"
#include "server/service.h"

namespace fathom {

// How soon it is noticed that a client has left while it is sent nothing.
inline constexpr std::chrono::milliseconds kPeerCheck{100};

// A session and what is told about it, however it ends. `Session` is ChatSession or TextSession.
template <class Session>
class ServedSession {
 public:
  // Throws what the session throws. `request` outlives this.
  template <class Job>
  ServedSession(Service& service, HttpRequest& request, Job job)
      : service_(service), request_(request), session_(service.model, std::move(job)) {}

  ~ServedSession() {
    report_metrics(service_.metrics, session_.usage(), session_.times());
    request_.log += report_line(session_.usage(), session_.times(), outcome_);
  }
  ServedSession(const ServedSession&) = delete;
  ServedSession& operator=(const ServedSession&) = delete;

  [[nodiscard]] Session& session() { return session_; }

  // The session's next event; nullopt: none for a while, time to look after the client.
  [[nodiscard]] auto next() {
    if (service_.ending) {
      throw ApiError(ApiErrorKind::kOverloaded, "the server is shutting down");
    }
    auto event = session_.next(kPeerCheck);
    if (session_.finished()) {
      outcome_ = session_.outcome();
    }
    return event;
  }

  // Notes why the session failed.
  [[nodiscard]] ApiError failed(const std::exception_ptr& failure) {
    ApiError error = to_api_error(failure);
    outcome_ = kind_name(error.kind());
    return error;
  }

 private:
  Service& service_;
  HttpRequest& request_;
  Session session_;
  std::string_view outcome_ = "client_gone";
};

// Hands every event to `add`. False: the client has left, and nobody reads the response. Throws ApiError.
template <class Session, class Add>
[[nodiscard]] bool collect_events(ServedSession<Session>& served, const HttpRequest& request, const Add& add) {
  using Clock = std::chrono::steady_clock;
  auto last_check = Clock::now();
  try {
    while (!served.session().finished()) {
      if (auto event = served.next()) {
        add(std::move(*event));
      }
      if (Clock::now() - last_check >= kPeerCheck) {
        last_check = Clock::now();
        if (request.peer_gone()) {
          return false;
        }
      }
    }
    return true;
  } catch (...) {
    throw served.failed(std::current_exception());
  }
}

// What the log shows for a response that nobody was there to read.
inline constexpr int kClientGoneStatus = 499;

// The stream until its end, or until the client leaves; the session's end is the generation's. `Format` has the stream
// functions of ChatFormat.
template <class Session, class Format>
void stream_events(ServedSession<Session>& served, Format& format, HttpStream& out,
                   std::chrono::milliseconds keep_alive) {
  using Clock = std::chrono::steady_clock;
  const Session& session = served.session();
  auto last_sent = Clock::now();
  const auto send = [&](const std::string& text) {
    if (!text.empty()) {
      last_sent = Clock::now();
    }
    return out.send(text);
  };
  bool alive = send(format.begin(session.usage()));
  while (alive && !session.finished()) {
    if (const auto event = served.next()) {
      alive = send(format.event(*event));
    } else if (Clock::now() - last_sent >= keep_alive) {
      alive = send(format.keep_alive());
    } else {
      alive = out.alive();
    }
  }
  if (alive) {
    send(format.end(session.usage()));
  }
}

template <class Session, class Format>
[[nodiscard]] HttpResponse stream_response(Service& service, std::shared_ptr<ServedSession<Session>> served,
                                           std::shared_ptr<Format> format) {
  HttpResponse response;
  response.content_type = "text/event-stream; charset=utf-8";
  response.headers = {{"Cache-Control", "no-cache"}, {"X-Accel-Buffering", "no"}};
  response.stream = [&service, served = std::move(served), format = std::move(format)](HttpStream& out) {
    try {
      stream_events(*served, *format, out, service.keep_alive);
    } catch (...) {
      const ApiError error = served->failed(std::current_exception());
      service.metrics.count_error(kind_name(error.kind()));
      out.send(format->error(error));
    }
  };
  return response;
}

}  // namespace fathom
