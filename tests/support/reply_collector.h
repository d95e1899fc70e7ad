// The events of a reply put together again, and what must hold for them whatever the model wrote.
#pragma once

#include <cstddef>
#include <functional>
#include <nlohmann/json.hpp>
#include <ostream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "chat/reply_parser.h"
#include "core/ordered_json.h"
#include "core/prompt_text.h"
#include "core/utf8.h"

namespace fathom::test {

struct CollectedCall {
  std::string name = {};
  std::string arguments = {};
  bool is_complete = true;

  friend bool operator==(const CollectedCall&, const CollectedCall&) = default;
};

struct CollectedReply {
  std::string reasoning = {};
  std::string content = {};
  std::vector<CollectedCall> calls = {};
  ReplyFinish reason = ReplyFinish::kStop;

  friend bool operator==(const CollectedReply&, const CollectedReply&) = default;
};

// For messages of failed tests.
inline void PrintTo(const CollectedReply& reply, std::ostream* out) {
  *out << "reasoning {" << reply.reasoning << "} content {" << reply.content << "}";
  for (const CollectedCall& call : reply.calls) {
    *out << (call.is_complete ? " call " : " incomplete call ") << call.name << " {" << call.arguments << "}";
  }
  *out << " reason " << static_cast<int>(reply.reason);
}

// Sizes of the pieces that a text is pushed in: next(0), next(1), ...; 0 for all of the rest.
using PieceSizes = std::function<size_t(size_t)>;

struct ParsedReply {
  std::vector<ReplyEvent> events;  // neighbouring pieces of text merged
  int damage = 0;
};

inline ParsedReply parse_reply(std::string_view text, ReplyOptions options, ReplyEnd end, const PieceSizes& size) {
  options.new_call_id = [](int call) { return "id" + std::to_string(call); };
  ReplyParser parser(std::move(options));
  ParsedReply parsed;
  const auto add = [&](std::vector<ReplyEvent> events) {
    for (ReplyEvent& event : events) {
      const bool is_text = event.kind == ReplyEvent::Kind::kReasoning || event.kind == ReplyEvent::Kind::kContent ||
                           event.kind == ReplyEvent::Kind::kArguments;
      if (is_text && (event.text.empty() || !is_valid_utf8(event.text))) {
        throw std::logic_error("a piece of text is empty or not UTF-8");
      }
      if (is_text && !parsed.events.empty() && parsed.events.back().kind == event.kind &&
          parsed.events.back().call == event.call) {
        parsed.events.back().text += event.text;
      } else {
        parsed.events.push_back(std::move(event));
      }
    }
  };
  for (size_t i = 0; !text.empty(); ++i) {
    const size_t n = size(i);
    const std::string_view piece = text.substr(0, n == 0 ? text.size() : n);
    add(parser.push(piece));
    text.remove_prefix(piece.size());
  }
  add(parser.finish(end));
  parsed.damage = parser.damage();
  return parsed;
}

inline ParsedReply parse_whole(std::string_view text, const ReplyOptions& options = {},
                               ReplyEnd end = ReplyEnd::kStop) {
  return parse_reply(text, options, end, [](size_t) { return 0; });
}

// Throws std::logic_error when the events break a promise.
inline CollectedReply collect(const std::vector<ReplyEvent>& events) {
  using Kind = ReplyEvent::Kind;
  const auto require = [](bool condition, const char* what) {
    if (!condition) {
      throw std::logic_error(what);
    }
  };
  CollectedReply reply;
  bool is_open = false;
  require(!events.empty() && events.back().kind == Kind::kFinish, "the last event is the finish");
  for (const ReplyEvent& event : events) {
    switch (event.kind) {
      case Kind::kReasoning:
        require(reply.content.empty() && reply.calls.empty(), "reasoning comes first");
        reply.reasoning += event.text;
        break;
      case Kind::kContent:
        require(reply.calls.empty(), "content comes before calls");
        reply.content += event.text;
        break;
      case Kind::kCallStart:
        require(!is_open && event.call == static_cast<int>(reply.calls.size()) && !event.id.empty(), "calls count up");
        reply.calls.push_back({.name = event.name, .is_complete = false});
        is_open = true;
        break;
      case Kind::kArguments:
        require(is_open && event.call + 1 == static_cast<int>(reply.calls.size()), "arguments are of the last call");
        reply.calls.back().arguments += event.text;
        break;
      case Kind::kCallEnd: {
        require(is_open && event.call + 1 == static_cast<int>(reply.calls.size()), "the last call ends");
        is_open = false;
        reply.calls.back().is_complete = true;
        const auto object = parse_ordered_json(reply.calls.back().arguments);
        require(nlohmann::json::accept(reply.calls.back().arguments), "arguments are JSON");
        require(!object || object->is_object(), "arguments are an object");
        break;
      }
      case Kind::kFinish:
        require(&event == &events.back(), "nothing follows the finish");
        reply.reason = event.reason;
        break;
    }
  }
  require(reply.content.find(literal::kDsml) == std::string::npos, "content holds no markup");
  return reply;
}

}  // namespace fathom::test
