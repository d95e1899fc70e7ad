#include "server/replay_store.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "core/ordered_json.h"

namespace fathom {
namespace {

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r\n";
  const size_t begin = text.find_first_not_of(kBlank);
  return begin == std::string_view::npos ? std::string_view{}
                                         : text.substr(begin, text.find_last_not_of(kBlank) + 1 - begin);
}

bool left_out_or_same(const std::string& sent_back, const std::string& original) {
  return sent_back.empty() || trimmed(sent_back) == trimmed(original);
}

// The same value, however it is written; the order of keys does not count.
bool same_arguments(const std::string& a, const std::string& b) {
  if (a == b) {
    return true;
  }
  const auto parsed_a = parse_ordered_json(a.empty() ? "{}" : a);
  const auto parsed_b = parse_ordered_json(b.empty() ? "{}" : b);
  return parsed_a && parsed_b && nlohmann::json(*parsed_a) == nlohmann::json(*parsed_b);
}

bool same_call(const ToolCall& a, const ToolCall& b) {
  return a.id == b.id && a.name == b.name && same_arguments(a.arguments, b.arguments);
}

size_t bytes_of(const ChatMessage& answer, const SampledReply& sampled) {
  size_t bytes = answer.content.size() + answer.reasoning.size() + sampled.text.size() +
                 sampled.tokens.size() * sizeof(TokenId) + sizeof(ChatMessage) + sizeof(SampledReply);
  for (const ToolCall& call : answer.tool_calls) {
    bytes += sizeof(ToolCall) + call.id.size() + call.name.size() + call.arguments.size();
  }
  return bytes;
}

}  // namespace

void ReplayStore::remember(ChatMessage answer, SampledReply sampled) {
  if (answer.tool_calls.empty() || answer.tool_calls.front().id.empty()) {
    return;
  }
  const size_t bytes = bytes_of(answer, sampled);
  const std::string id = answer.tool_calls.front().id;
  const std::lock_guard lock(mutex_);
  if (const auto known = by_id_.find(id); known != by_id_.end()) {
    bytes_ -= known->second->bytes;
    entries_.erase(known->second);
  }
  entries_.push_front({std::move(answer), std::make_shared<const SampledReply>(std::move(sampled)), bytes});
  by_id_[id] = entries_.begin();
  bytes_ += bytes;
  while (bytes_ > max_bytes_) {
    drop_oldest();
  }
}

std::shared_ptr<const SampledReply> ReplayStore::find(const ChatMessage& message) {
  if (message.role != Role::kAssistant || message.tool_calls.empty()) {
    return nullptr;
  }
  const std::lock_guard lock(mutex_);
  const auto found = by_id_.find(message.tool_calls.front().id);
  if (found == by_id_.end()) {
    return nullptr;
  }
  const ChatMessage& answer = found->second->answer;
  const bool same = std::ranges::equal(message.tool_calls, answer.tool_calls, same_call) &&
                    left_out_or_same(message.content, answer.content) &&
                    left_out_or_same(message.reasoning, answer.reasoning);
  if (!same) {
    return nullptr;
  }
  entries_.splice(entries_.begin(), entries_, found->second);
  return found->second->sampled;
}

void ReplayStore::drop_oldest() {
  const Entry& oldest = entries_.back();
  bytes_ -= oldest.bytes;
  by_id_.erase(oldest.answer.tool_calls.front().id);
  entries_.pop_back();
}

}  // namespace fathom
