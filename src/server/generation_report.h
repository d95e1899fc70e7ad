// What is said about a generation once it is over: in the log and in the metrics.
#pragma once

#include <string>

#include "server/chat_session.h"
#include "server/metrics.h"

namespace fathom {

// " prompt=12 cached=0 new=5 ..."; lengths and times, never text.
[[nodiscard]] std::string report_line(const ChatUsage& usage, const GenerationTimes& times, std::string_view finish);

void report_metrics(Metrics& metrics, const ChatUsage& usage, const GenerationTimes& times);

}  // namespace fathom
