// The strict rules for replies, as the reference has them: for well-formed text only, everything else is an error.
// Independent of the streaming parser, which has to agree wherever these rules have a result.
#pragma once

#include <initializer_list>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>

#include "core/ordered_json.h"
#include "core/prompt_text.h"
#include "support/reply_collector.h"

namespace fathom::test {

class StrictReader {
 public:
  StrictReader(std::string_view text, bool thinking) : text_(text), thinking_(thinking) {}

  // Throws std::runtime_error.
  [[nodiscard]] CollectedReply read() {
    const std::string calls = "\n\n" + open("tool_calls");
    std::string_view stop;
    if (thinking_) {
      reply_.reasoning = read_until({literal::kEndThink, calls}, stop);
      require(stop == literal::kEndThink, "missing </think>");
    }
    reply_.content = read_until({literal::kEos, calls}, stop);
    require(!stop.empty(), "missing EOS");
    if (stop == calls) {
      read_calls();
      require(read_until({literal::kEos}, stop) == ">" && !stop.empty(), "content after tool calls");
    }
    require(text_.empty(), "content after EOS");
    for (const std::string_view token :
         {literal::kBos, literal::kEos, literal::kThink, literal::kEndThink, literal::kDsml}) {
      require(reply_.content.find(token) == std::string::npos && reply_.reasoning.find(token) == std::string::npos,
              "special token in content");
    }
    reply_.reason = reply_.calls.empty() ? ReplyFinish::kStop : ReplyFinish::kToolCalls;
    return std::move(reply_);
  }

 private:
  static std::string open(const std::string& word) { return "<" + std::string(literal::kDsml) + word; }
  static std::string close(const std::string& word) { return "</" + std::string(literal::kDsml) + word; }
  static void require(bool condition, const char* what) {
    if (!condition) {
      throw std::runtime_error(what);
    }
  }

  // The text before the first of `stops`, which is left behind; all of it and an empty `stop` when there is none.
  std::string read_until(std::initializer_list<std::string_view> stops, std::string_view& stop) {
    size_t end = std::string_view::npos;
    stop = {};
    for (const std::string_view candidate : stops) {
      if (const size_t at = text_.find(candidate); at < end) {
        end = at;
        stop = candidate;
      }
    }
    std::string before(text_.substr(0, end));
    text_.remove_prefix(before.size() + stop.size());
    return before;
  }

  // Takes the quotes and what is between them off the front of `text`.
  static std::string take_attribute(std::string& text, const std::string& name, const char* problem) {
    const std::string prefix = " " + name + "=\"";
    require(text.starts_with(prefix), problem);
    const size_t end = text.find('"', prefix.size());
    require(end != std::string::npos, problem);
    std::string value = text.substr(prefix.size(), end - prefix.size());
    text.erase(0, end + 1);
    return value;
  }

  void read_calls() {
    const std::string invoke = open("invoke");
    const std::string end = close("tool_calls");
    for (std::string_view stop;;) {
      require(read_until({invoke, end}, stop) == ">\n", "expected '>\\n'");
      if (stop == end) {
        return;
      }
      read_call();
    }
  }

  void read_call() {
    const std::string parameter = open("parameter");
    const std::string end = close("invoke");
    std::string_view stop;
    std::string header = read_until({parameter, end}, stop);
    CollectedCall call{.name = take_attribute(header, "name", "invoke format")};
    require(header == ">\n" || (stop == end && header == ">\n\n"), "invoke format");
    std::set<std::string> names;
    while (stop == parameter) {
      std::string text = read_until({close("parameter")}, stop);
      require(!stop.empty(), "parameter format");
      const std::string name = take_attribute(text, "name", "parameter format");
      const std::string flag = take_attribute(text, "string", "parameter format");
      require((flag == "true" || flag == "false") && text.starts_with(">"), "parameter format");
      require(names.insert(name).second, "duplicate parameter");
      call.arguments += call.arguments.empty() ? "{" : ", ";
      call.arguments += quote(name) + ": " + (flag == "true" ? quote(text.substr(1)) : text.substr(1));
      require(read_until({parameter, end}, stop) == ">\n" && !stop.empty(), "expected '>\\n'");
    }
    require(stop == end, "parameter format");
    call.arguments += call.arguments.empty() ? "{}" : "}";
    reply_.calls.push_back(std::move(call));
  }

  static std::string quote(const std::string& text) {
    std::string quoted = "\"";
    append_json_escaped(quoted, text);
    return quoted + "\"";
  }

  std::string_view text_;
  bool thinking_;
  CollectedReply reply_;
};

}  // namespace fathom::test
