// What a job's answer has to look like, as the engine enforces it.
#pragma once

#include <optional>

#include "grammar/constraint.h"
#include "server/chat_job.h"
#include "server/served_model.h"

namespace fathom {

// Whether the prompt shows the job's tools.
[[nodiscard]] bool offers_tools(const ChatJob& job);

// nullopt: anything goes. `reasons`: the reply begins with reasoning, which is never constrained. Throws Error
// kBadRequest for a format, or a tool that has to be called, whose schema or grammar cannot be followed; a tool that
// only may be called is then left to the model.
[[nodiscard]] std::optional<GenerationConstraint> chat_constraint(const ServedModel& model, const ChatJob& job,
                                                                  bool reasons);

}  // namespace fathom
