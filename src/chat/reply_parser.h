// What a model writes, taken apart as it arrives: reasoning, content and tool calls. Pure text; one parser for all
// APIs.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "chat/argument_writer.h"
#include "chat/dsml_tag.h"
#include "chat/reply_text_filters.h"
#include "chat/tool_schema.h"
#include "core/utf8.h"

namespace fathom {

// Why generation ended.
enum class ReplyEnd : uint8_t {
  kStop,    // the model ended its turn, or a stop string did
  kLength,  // no room for more tokens
};

enum class ReplyFinish : uint8_t { kStop, kLength, kToolCalls };

struct ReplyEvent {
  enum class Kind : uint8_t {
    kReasoning,  // `text` follows
    kContent,    // `text` follows
    kCallStart,  // `id`, `name`
    kArguments,  // `text` follows: a piece of a JSON object
    kCallEnd,    // the arguments are complete; a call without this event must not be run
    kFinish,     // `reason`; always the last event, and there is one
  };

  Kind kind = Kind::kContent;
  int call = -1;  // which call, from 0
  std::string text = {};
  std::string id = {};
  std::string name = {};
  ReplyFinish reason = ReplyFinish::kStop;

  friend bool operator==(const ReplyEvent&, const ReplyEvent&) = default;
};

// "call_00_" and 24 characters that cannot be guessed.
[[nodiscard]] std::string random_call_id(int call);

struct ReplyOptions {
  enum class Start : uint8_t {
    kContent,    // the prompt ends with </think>
    kReasoning,  // the prompt ends with <think>
    kContinued,  // the prompt ends inside content: nothing is dropped at its beginning
  };

  Start start = Start::kContent;
  ToolSchemas tools = {};  // those on offer; without any, calls are left out of the reply
  bool tolerant = true;    // accept variants of the markup
  std::function<std::string(int)> new_call_id = random_call_id;
};

// Events depend on the text alone, not on how it is cut into pieces; only neighbouring pieces of text may be cut
// differently. Content never holds the DSML mark, text in events is well-formed UTF-8, and what was sent is never taken
// back. `bytes` are the decoded tokens without control tokens other than <think>, </think> and the DSML mark; the
// end-of-sentence literal ends the reply.
class ReplyParser {
 public:
  explicit ReplyParser(ReplyOptions options = {});

  [[nodiscard]] std::vector<ReplyEvent> push(std::string_view bytes);
  // Once, after the last push.
  [[nodiscard]] std::vector<ReplyEvent> finish(ReplyEnd end);

  [[nodiscard]] bool in_reasoning() const { return state_ == State::kReasoning; }
  // Nothing that follows can count: generation may as well stop.
  [[nodiscard]] bool is_complete() const { return state_ == State::kDone || state_ == State::kEnded; }
  // How much was wrong with the markup: tags out of place, bytes between tags.
  [[nodiscard]] int damage() const { return damage_; }

 private:
  enum class State : uint8_t {
    kReasoning,
    kContent,
    kTools,  // in a block, between calls
    kCall,   // in a call, between parameters
    kValue,  // in a parameter, or in JSON instead of parameters
    kDone,   // after the block
    kEnded,  // after the end-of-sentence literal
  };
  enum class Step : uint8_t { kGoOn, kWait };

  void run();
  Step step();
  Step step_text();
  Step step_markup();
  Step step_content_markup();
  Step step_tools();
  Step step_call();
  Step step_value();

  // Takes bytes off the front of the text.
  Step consume(size_t n) {
    pos_ += n;
    return Step::kGoOn;
  }
  [[nodiscard]] std::string_view rest() const { return std::string_view(pending_).substr(pos_); }
  Step skip_to_tag();
  Step wait_for_more();
  bool try_end();

  void write_text(std::string_view text);
  void drop_newlines() { held_newlines_ = 0; }
  void enter_content();
  void enter_reasoning();
  void enter_tools(size_t opening_bytes, TagStyle style);
  [[nodiscard]] std::pair<TagStyle, TagMatch> match_opening() const;

  void start_call(std::string_view name);
  void end_call();
  void begin_parameter(const DsmlTag& tag);
  void end_value();
  void send(ReplyEvent event);
  void send_text(ReplyEvent::Kind kind, std::string_view text);
  void send_arguments(const std::string& json);

  ReplyOptions options_;
  bool calls_count_;  // false: recognised and left out
  Utf8Stream utf8_;
  std::string pending_;  // text that is not understood yet, from pos_ on
  size_t pos_ = 0;
  bool at_end_ = false;
  State state_;

  // Reasoning and content.
  bool has_text_ = false;     // some of the part was sent
  size_t held_newlines_ = 0;  // before what comes next; markup swallows them
  CodeTracker code_;
  MarkFilter mark_filter_;

  // Calls.
  TagStyle style_ = TagStyle::kExact;
  int call_ = -1;
  int n_complete_ = 0;
  std::optional<ArgumentWriter> arguments_;

  int damage_ = 0;
  std::vector<ReplyEvent> events_;
};

}  // namespace fathom
