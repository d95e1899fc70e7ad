// What APIs call a conversation, made into what the model was trained on. Pure functions on messages; the server's
// policy where the trained format has no place for what a client sends (docs/chat.md).
#pragma once

#include <string>
#include <vector>

#include "chat/message.h"

namespace fathom {

// A conversation that the model can answer:
//   leading system and developer messages become one system message,
//   later ones become text of the user's side in their place, so that what precedes them stays a common prefix,
//   consecutive pieces of the assistant's become one message.
// Throws Error kBadRequest when there is nothing to answer: no messages, or a finished answer at the end.
[[nodiscard]] std::vector<ChatMessage> for_generation(std::vector<ChatMessage> messages);

// Adds a later piece of the same answer: reasoning, text and calls behind those of `answer`.
void append_piece(ChatMessage& answer, ChatMessage piece);

// Offers tools to the whole conversation: they replace those of the first message when it is the system's or a
// developer's; an empty system message carries them otherwise.
void offer_tools(std::vector<ChatMessage>& messages, std::vector<Tool> tools);

// The same for the JSON text of a schema that the answer has to follow.
void require_schema(std::vector<ChatMessage>& messages, std::string schema);

// Anthropic's list of system texts as one. Parts that name themselves "x-anthropic-..." are left out: they differ in
// every request and would make every prompt a new one.
[[nodiscard]] std::string join_system_texts(const std::vector<std::string>& texts);

}  // namespace fathom
