// Any bytes as config.json: an Error, or a config that is consistent.
#include <cstdint>
#include <string_view>

#include "core/check.h"
#include "core/error.h"
#include "model/config_reader.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const fathom::ModelConfig c = fathom::read_json_config({reinterpret_cast<const char*>(data), size}, "config.json");
    FATHOM_CHECK(c.n_layers > 0 && c.compress_ratios.size() == static_cast<size_t>(c.n_layers), "a ratio per layer");
    FATHOM_CHECK(c.swiglu_limit.size() == static_cast<size_t>(c.n_layers), "a limit per layer");
    FATHOM_CHECK(c.shared_swiglu_limit.size() == static_cast<size_t>(c.n_layers), "a limit per layer");
    FATHOM_CHECK(c.rope_dim > 0 && c.rope_dim < c.head_dim, "part of a head rotates");
    FATHOM_CHECK(c.n_experts_used > 0 && c.n_experts_used <= c.n_experts, "experts to choose from");
  } catch (const fathom::Error&) {
  }
  return 0;
}
