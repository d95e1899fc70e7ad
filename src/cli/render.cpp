#include "cli/render.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "chat/conversation.h"
#include "chat/message_json.h"
#include "cli/exit_code.h"
#include "cli/text_io.h"
#include "core/error.h"
#include "core/ordered_json.h"

namespace fathom::cli {
namespace {

using Json = nlohmann::ordered_json;

// A list of messages, or a request with "messages" and perhaps "tools".
std::vector<ChatMessage> read_request(const Json& request, bool as_served) {
  const bool is_list = request.is_array();
  if (!is_list && (!request.is_object() || !request.contains("messages"))) {
    throw Error(ErrorCode::kBadRequest,
                "standard input: expected a list of messages or an object with \"messages\", got neither");
  }
  std::vector<ChatMessage> messages = read_messages(is_list ? request : request.at("messages"), "messages");
  if (as_served) {
    messages = for_generation(std::move(messages));
  }
  if (!is_list && request.contains("tools")) {
    offer_tools(messages, read_tools(request.at("tools"), "tools"));
  }
  return messages;
}

}  // namespace

int render(const RenderOptions& options) {
  const Json request = parse_ordered_json(read_text("-"), "standard input");
  const RenderedPrompt prompt = render_chat(read_request(request, options.as_served), options.chat);
  if (!options.json) {
    write_stdout(prompt.text);
    return kExitOk;
  }
  Json trusted = Json::array();
  for (const TextSpan& span : prompt.trusted) {
    trusted.push_back({span.begin, span.end});
  }
  write_stdout(Json{{"text", prompt.text}, {"trusted", trusted}}.dump() + "\n");
  return kExitOk;
}

}  // namespace fathom::cli
