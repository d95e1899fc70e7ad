#include "chat/turns.h"

#include <algorithm>
#include <unordered_map>

namespace fathom {
namespace {

using CallOrder = std::unordered_map<std::string_view, int>;

void add_tool_result(std::vector<Turn>& turns, const ChatMessage& message) {
  if (turns.empty() || turns.back().role != Role::kUser) {
    turns.push_back({.message = &message});
  }
  turns.back().blocks.push_back({.text = message.content, .is_result = true, .call_id = message.tool_call_id});
}

void add_user_text(std::vector<Turn>& turns, const ChatMessage& message) {
  if (turns.empty() || turns.back().role != Role::kUser || turns.back().task) {
    turns.push_back({.message = &message, .task = message.task});
  }
  turns.back().blocks.push_back({.text = message.content});
}

CallOrder order_of_calls(const ChatMessage& message) {
  CallOrder order;
  for (size_t i = 0; i < message.tool_calls.size(); ++i) {
    if (const std::string& id = message.tool_calls[i].id; !id.empty()) {
      order[id] = static_cast<int>(i);
    }
  }
  return order;
}

// Results trade places among themselves; one of an unknown call counts as the first call's.
void sort_results(std::vector<TurnBlock>& blocks, const CallOrder& order) {
  std::vector<TurnBlock> results;
  std::copy_if(blocks.begin(), blocks.end(), std::back_inserter(results),
               [](const TurnBlock& block) { return block.is_result; });
  const auto place = [&](const TurnBlock& block) {
    const auto found = order.find(block.call_id);
    return found == order.end() ? 0 : found->second;
  };
  std::stable_sort(results.begin(), results.end(),
                   [&](const TurnBlock& a, const TurnBlock& b) { return place(a) < place(b); });
  auto next = results.begin();
  for (TurnBlock& block : blocks) {
    if (block.is_result) {
      block = *next++;
    }
  }
}

}  // namespace

std::vector<Turn> merge_turns(const std::vector<ChatMessage>& messages) {
  std::vector<Turn> turns;
  for (const ChatMessage& message : messages) {
    if (message.role == Role::kTool) {
      add_tool_result(turns, message);
    } else if (message.role == Role::kUser) {
      add_user_text(turns, message);
    } else {
      turns.push_back({.message = &message, .role = message.role, .task = message.task});
    }
  }

  CallOrder order;
  for (Turn& turn : turns) {
    if (turn.role == Role::kAssistant && !turn.message->tool_calls.empty()) {
      order = order_of_calls(*turn.message);
    } else if (turn.role == Role::kUser && !order.empty()) {
      sort_results(turn.blocks, order);
    }
  }
  return turns;
}

void drop_old_developers(std::vector<Turn>& turns) {
  const auto end = turns.begin() + std::max(last_request(turns), 0);
  turns.erase(std::remove_if(turns.begin(), end, [](const Turn& turn) { return turn.role == Role::kDeveloper; }), end);
}

int last_request(const std::vector<Turn>& turns) {
  int last = static_cast<int>(turns.size()) - 1;
  while (last >= 0 && !turns[static_cast<size_t>(last)].is_request()) {
    --last;
  }
  return last;
}

}  // namespace fathom
