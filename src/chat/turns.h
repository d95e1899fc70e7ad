// What the encoder makes of a list of messages before it writes anything: there is no tool role in the prompt, results
// and texts of the user's side form one turn, and what is not to be seen again is left out.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "chat/message.h"

namespace fathom {

// One piece of a user turn.
struct TurnBlock {
  std::string_view text;
  bool is_result = false;
  std::string_view call_id = {};  // of a result
};

// Views of the messages it was made from.
struct Turn {
  const ChatMessage* message = nullptr;  // the only one, or the first of a user turn
  Role role = Role::kUser;               // never kTool
  std::optional<Task> task = {};
  std::vector<TurnBlock> blocks = {};  // of a user turn

  [[nodiscard]] bool is_request() const { return role == Role::kUser || role == Role::kDeveloper; }
};

// Results and texts of the user's side merged into turns, results in the order of their calls.
[[nodiscard]] std::vector<Turn> merge_turns(const std::vector<ChatMessage>& messages);

// Removes developer turns before the last request: they were about an earlier one.
void drop_old_developers(std::vector<Turn>& turns);

// Index of the last turn that asks for an answer; -1 when none does.
[[nodiscard]] int last_request(const std::vector<Turn>& turns);

}  // namespace fathom
