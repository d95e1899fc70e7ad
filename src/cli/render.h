// fathom render: a JSON request on standard input as the text that the model sees.
#pragma once

#include "chat/prompt.h"

namespace fathom::cli {

struct RenderOptions {
  ChatOptions chat;
  bool as_served = false;  // arrange the messages as the server does, instead of rendering them as they are
  bool json = false;       // {"text": ..., "trusted": [[begin, end], ...]}
};

[[nodiscard]] int render(const RenderOptions& options);

}  // namespace fathom::cli
