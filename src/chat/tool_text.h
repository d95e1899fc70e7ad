// Tools and their calls as the prompt shows them.
#pragma once

#include <vector>

#include "chat/message.h"
#include "chat/prompt_builder.h"

namespace fathom {

// What tells the model which tools there are and how to call them.
void write_tools(PromptBuilder& prompt, const std::vector<Tool>& tools);

// The calls of an earlier answer. Arguments that are no JSON object become one parameter "arguments" with their text.
// `defuse`: a closing tag inside a value is made harmless.
void write_calls(PromptBuilder& prompt, const std::vector<ToolCall>& calls, bool defuse);

}  // namespace fathom
