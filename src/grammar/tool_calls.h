// Grammars of tool calls in DSML (docs/chat.md), for the tools that a request offers.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "grammar/grammar.h"

namespace fathom {

struct CallableTool {
  std::string name;
  std::string parameters;  // JSON schema of the arguments object; empty: there are none
};

struct ToolCallOptions {
  bool parallel = true;  // more than one call
  // The text begins after the DSML token of the opening tag: for a constraint that this token triggers. Otherwise it
  // begins with the empty line before the block.
  bool after_trigger = false;
};

// A block of one call or more: names of the tools, and parameters in the order of the schema, string="true" for strings
// and string="false" with JSON for the rest. Names that a schema does not list are allowed only if it says so
// (additionalProperties) or lists none. Throws kBadRequest for no tools, a name that a tag cannot hold, two tools of
// one name, and what json_schema_grammar() throws, with the tool's name.
[[nodiscard]] Grammar tool_calls_grammar(const std::vector<CallableTool>& tools, const ToolCallOptions& options);

// Either a block of calls or an answer in JSON.
[[nodiscard]] Grammar calls_or_json_grammar(const std::vector<CallableTool>& tools, const ToolCallOptions& options,
                                            const std::string& schema);

}  // namespace fathom
