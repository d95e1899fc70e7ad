#include "chat/reply_parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <random>
#include <utility>

#include "core/prompt_text.h"

namespace fathom {
namespace {

using Event = ReplyEvent::Kind;
using Tag = DsmlTag::Kind;

constexpr std::string_view kWhitespace = " \t\r\n";

// Half of a control token, cut off by the end of the reply, is no text for anybody.
bool is_half_markup(std::string_view text) {
  return text.find("\uFF5C") != std::string_view::npos || text.find("DSML") != std::string_view::npos;
}

}  // namespace

std::string random_call_id(int call) {
  constexpr std::string_view kCharacters = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
  std::random_device random;
  std::uniform_int_distribution<size_t> index(0, kCharacters.size() - 1);
  std::string id = fmt::format("call_{:02}_", call);
  std::generate_n(std::back_inserter(id), 24, [&] { return kCharacters[index(random)]; });
  return id;
}

ReplyParser::ReplyParser(ReplyOptions options)
    : options_(std::move(options)),
      calls_count_(!options_.tools.empty()),
      state_(options_.start == ReplyOptions::Start::kReasoning ? State::kReasoning : State::kContent),
      has_text_(options_.start == ReplyOptions::Start::kContinued) {}

std::vector<ReplyEvent> ReplyParser::push(std::string_view bytes) {
  pending_ += utf8_.push(bytes);
  run();
  return std::exchange(events_, {});
}

std::vector<ReplyEvent> ReplyParser::finish(ReplyEnd end) {
  const std::string rest_of_character = utf8_.finish();
  if (!is_half_markup(pending_)) {
    pending_ += rest_of_character;
  }
  at_end_ = true;
  run();
  if ((state_ == State::kReasoning || state_ == State::kContent) && has_text_) {
    write_text({});
  }
  send_text(Event::kContent, mark_filter_.finish());

  ReplyFinish reason = n_complete_ > 0 ? ReplyFinish::kToolCalls : ReplyFinish::kStop;
  if (end == ReplyEnd::kLength && !is_complete()) {
    reason = ReplyFinish::kLength;
  }
  send({.kind = Event::kFinish, .reason = reason});
  return std::exchange(events_, {});
}

void ReplyParser::run() {
  while (pos_ < pending_.size() && step() == Step::kGoOn) {
  }
  pending_.erase(0, pos_);
  pos_ = 0;
}

ReplyParser::Step ReplyParser::step() {
  switch (state_) {
    case State::kReasoning:
    case State::kContent:
      return step_text();
    case State::kTools:
      return step_tools();
    case State::kCall:
      return step_call();
    case State::kValue:
      return step_value();
    case State::kDone:
    case State::kEnded:
      break;
  }
  return consume(rest().size());
}

ReplyParser::Step ReplyParser::step_text() {
  const std::string_view text = rest();
  if (text.front() == '\n') {
    ++held_newlines_;
    code_.feed("\n");
    return consume(1);
  }
  if (text.front() == '<') {
    return step_markup();
  }
  const std::string_view run = text.substr(0, text.find_first_of("<\n"));
  write_text(run);
  return consume(run.size());
}

// At a "<" in reasoning or content.
ReplyParser::Step ReplyParser::step_markup() {
  const std::string_view text = rest();
  const bool reasoning = state_ == State::kReasoning;
  if (try_end()) {
    return Step::kGoOn;
  }
  const Match end_mark = match_literal(text, literal::kEos);
  const Match think = match_literal(text, literal::kThink);
  const Match end_think = match_literal(text, literal::kEndThink);
  if (end_mark == Match::kMaybe || think == Match::kMaybe || end_think == Match::kMaybe) {
    return wait_for_more();
  }
  if (end_think == Match::kYes && (reasoning || !code_.in_code())) {
    if (reasoning) {
      enter_content();
    }
    return consume(literal::kEndThink.size());
  }
  if (think == Match::kYes && (reasoning || !code_.in_code())) {
    if (!reasoning && !has_text_) {
      enter_reasoning();  // the prompt asked for none, but it would be content otherwise
    }
    return consume(literal::kThink.size());
  }

  if (!code_.in_code() && (!reasoning || calls_count_)) {
    const auto [style, calls] = match_opening();
    // Reasoning may well mention a tag: one alone has to begin a line to be meant.
    const bool is_meant = !reasoning || calls.size > 0 || held_newlines_ > 0 || !has_text_;
    if (calls.match == Match::kMaybe) {
      return wait_for_more();
    }
    if (calls.match == Match::kYes && is_meant) {
      enter_tools(calls.size, style);
      return Step::kGoOn;
    }
    if (!reasoning) {
      return step_content_markup();
    }
  }
  write_text("<");
  return consume(1);
}

// A tag in content that begins no call.
ReplyParser::Step ReplyParser::step_content_markup() {
  const TagMatch stray = match_tag(rest(), options_.tolerant ? TagStyle::kTolerant : TagStyle::kExact);
  if (stray.match == Match::kMaybe) {
    return wait_for_more();
  }
  if (stray.match == Match::kYes) {
    ++damage_;
    return consume(stray.size);
  }
  write_text("<");
  return consume(1);
}

ReplyParser::Step ReplyParser::step_tools() {
  if (rest().front() != '<') {
    return skip_to_tag();
  }
  if (try_end()) {
    return Step::kGoOn;
  }
  const TagMatch found = match_tag(rest(), style_);
  if (found.match == Match::kMaybe || match_literal(rest(), literal::kEos) == Match::kMaybe) {
    return wait_for_more();
  }
  if (found.match == Match::kNo) {
    ++damage_;
    return consume(1);
  }
  if (found.tag.opens(Tag::kInvoke)) {
    start_call(found.tag.name);
    state_ = State::kCall;
  } else if (found.tag.ends(Tag::kCalls)) {
    state_ = State::kDone;
  } else {
    ++damage_;
  }
  return consume(found.size);
}

ReplyParser::Step ReplyParser::step_call() {
  if (rest().front() == '{' && arguments_->empty()) {
    arguments_->begin_body();
    state_ = State::kValue;
    return Step::kGoOn;
  }
  if (rest().front() != '<') {
    return skip_to_tag();
  }
  if (try_end()) {
    return Step::kGoOn;
  }
  const TagMatch found = match_tag(rest(), style_);
  if (found.match == Match::kMaybe || match_literal(rest(), literal::kEos) == Match::kMaybe) {
    return wait_for_more();
  }
  if (found.match == Match::kNo) {
    ++damage_;
    return consume(1);
  }
  if (found.tag.opens(Tag::kParameter)) {
    begin_parameter(found.tag);
    return consume(found.size);
  }
  if (found.tag.ends(Tag::kInvoke)) {
    end_call();
    return consume(found.size);
  }
  ++damage_;
  if (found.tag.opens(Tag::kInvoke) || found.tag.ends(Tag::kCalls)) {
    end_call();  // and step_tools() reads the tag
    return Step::kGoOn;
  }
  return consume(found.size);
}

ReplyParser::Step ReplyParser::step_value() {
  const std::string_view text = rest();
  std::string json;
  // A newline before a tag belongs to the value or to the tag: it waits for what follows.
  const size_t tag = text.find('<');
  const size_t run = std::min(tag, text.size());
  const size_t sure = run > 0 && text[run - 1] == '\n' ? run - 1 : run;
  if (sure > 0) {
    arguments_->text(text.substr(0, sure), json);
    send_arguments(json);
    return consume(sure);
  }
  if (tag == std::string_view::npos) {
    return Step::kWait;  // a single newline
  }

  const std::string_view tag_text = text.substr(tag);
  const TagMatch found = match_tag(tag_text, style_);
  const Match end_mark = match_literal(tag_text, literal::kEos);
  if (found.match == Match::kMaybe || end_mark == Match::kMaybe) {
    return wait_for_more();
  }
  if (end_mark == Match::kYes) {
    consume(tag);
    static_cast<void>(try_end());
    return Step::kGoOn;
  }
  if (found.match == Match::kYes && found.tag.ends(Tag::kParameter)) {
    arguments_->text(text.substr(0, tag), json);
    send_arguments(json);
    end_value();
    return consume(tag + found.size);
  }
  if (found.match == Match::kYes && !found.tag.opens(Tag::kCalls)) {
    ++damage_;
    end_value();  // its closing tag is missing, and step_call() reads this one
    return consume(tag);
  }
  arguments_->text(text.substr(0, tag + 1), json);
  send_arguments(json);
  return consume(tag + 1);
}

// Between tags there should be nothing but whitespace.
ReplyParser::Step ReplyParser::skip_to_tag() {
  const size_t white = std::min(rest().find_first_not_of(kWhitespace), rest().size());
  if (white > 0) {
    return consume(white);
  }
  ++damage_;
  return consume(1);
}

// At something that may become markup. At the end of the reply it is text, unless it can only have been markup.
ReplyParser::Step ReplyParser::wait_for_more() {
  if (!at_end_) {
    return Step::kWait;
  }
  if (is_half_markup(rest())) {
    ++damage_;
    return consume(rest().size());
  }
  if (state_ == State::kReasoning || state_ == State::kContent) {
    write_text("<");
  }
  return consume(1);
}

bool ReplyParser::try_end() {
  if (match_literal(rest(), literal::kEos) != Match::kYes) {
    return false;
  }
  if ((state_ == State::kReasoning || state_ == State::kContent) && has_text_) {
    write_text({});
  }
  consume(literal::kEos.size());
  state_ = State::kEnded;
  return true;
}

void ReplyParser::write_text(std::string_view text) {
  const Event kind = state_ == State::kReasoning ? Event::kReasoning : Event::kContent;
  const std::string newlines(has_text_ ? held_newlines_ : 0, '\n');
  drop_newlines();
  has_text_ = true;
  code_.feed(text);
  for (const std::string_view piece : {std::string_view(newlines), text}) {
    if (kind == Event::kContent) {
      send_text(kind, mark_filter_.push(piece));
    } else {
      send_text(kind, piece);
    }
  }
}

void ReplyParser::enter_content() {
  drop_newlines();
  state_ = State::kContent;
  has_text_ = false;
  code_ = {};
}

void ReplyParser::enter_reasoning() {
  drop_newlines();
  state_ = State::kReasoning;
  code_ = {};
}

void ReplyParser::enter_tools(size_t opening_bytes, TagStyle style) {
  drop_newlines();
  send_text(Event::kContent, mark_filter_.finish());
  state_ = State::kTools;
  style_ = style;
  consume(opening_bytes);
}

std::pair<TagStyle, TagMatch> ReplyParser::match_opening() const {
  const TagStyle style = options_.tolerant ? TagStyle::kTolerant : TagStyle::kExact;
  const TagMatch marked = match_calls(rest(), style);
  // Tags without the mark could be anything, so they count only where a block belongs.
  const bool may_be_bare = options_.tolerant && calls_count_ && state_ == State::kContent && held_newlines_ >= 2;
  if (marked.match != Match::kNo || !may_be_bare) {
    return {style, marked};
  }
  return {TagStyle::kBare, match_calls(rest(), TagStyle::kBare)};
}

void ReplyParser::start_call(std::string_view name) {
  const std::string tool(name);
  ++call_;
  arguments_.emplace(options_.tools.of(tool));
  if (calls_count_) {
    send({.kind = Event::kCallStart, .call = call_, .id = options_.new_call_id(call_), .name = tool});
  }
}

void ReplyParser::end_call() {
  std::string json;
  arguments_->finish(json);
  send_arguments(json);
  if (calls_count_) {
    send({.kind = Event::kCallEnd, .call = call_});
    ++n_complete_;
  }
  arguments_.reset();
  state_ = State::kTools;
}

void ReplyParser::begin_parameter(const DsmlTag& tag) {
  std::string json;
  if (!arguments_->begin(tag.name, tag.flag, json)) {
    ++damage_;
  }
  send_arguments(json);
  state_ = State::kValue;
}

void ReplyParser::end_value() {
  std::string json;
  arguments_->end(json);
  send_arguments(json);
  state_ = State::kCall;
}

void ReplyParser::send(ReplyEvent event) { events_.push_back(std::move(event)); }

void ReplyParser::send_text(Event kind, std::string_view text) {
  if (text.empty()) {
    return;
  }
  const int call = kind == Event::kArguments ? call_ : -1;
  if (!events_.empty() && events_.back().kind == kind && events_.back().call == call) {
    events_.back().text += text;
  } else {
    send({.kind = kind, .call = call, .text = std::string(text)});
  }
}

void ReplyParser::send_arguments(const std::string& json) {
  if (calls_count_) {
    send_text(Event::kArguments, json);
  }
}

}  // namespace fathom
