// What must hold between the values of a config, however it was spelled. Private to model/.
#pragma once

#include <string>

#include "core/model_config.h"

namespace fathom {

// `file` is named in messages. Throws kBadModel, kUnsupported.
void check_config(const ModelConfig& config, const std::string& file);

// A positive finite float. Throws kBadModel naming file and key.
[[nodiscard]] float checked_positive(double value, const std::string& file, const std::string& key);

}  // namespace fathom
