// Tensor names in the three spellings a model comes in: GGUF (canonical here), the official safetensors, and
// safetensors saved by the Hugging Face port.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace fathom {

// What a tensor of a safetensors file holds.
enum class TensorContent : uint8_t {
  kWhole,          // all of one canonical tensor: a vector or a matrix
  kExpert,         // the matrix of one expert
  kExperts,        // the matrices of all experts [E, out, in]
  kGateUpExperts,  // gate and up of all experts [E, 2 F, in]: per expert the rows of gate, then those of up
};

struct TensorMeaning {
  TensorContent content = TensorContent::kWhole;
  std::string name;     // canonical; of kGateUpExperts the gate's
  std::string up_name;  // of kGateUpExperts only
  int expert = 0;       // of kExpert only
};

// nullopt: neither an official name of the main model nor one of the port's.
[[nodiscard]] std::optional<TensorMeaning> meaning_of_safetensors_name(std::string_view name);

// Where the scales of a quantised tensor may be: the official name ("x.scale" for "x.weight"), then the older one
// ("x.weight_scale_inv").
[[nodiscard]] std::array<std::string, 2> scale_names(std::string_view weight_name);
[[nodiscard]] bool is_scale_name(std::string_view name) noexcept;
// The reverse: the tensors whose scales may be called `scale_name`. Precondition: is_scale_name().
[[nodiscard]] std::array<std::string, 2> scaled_tensor_names(std::string_view scale_name);

// A tensor that a complete file may hold beside the main model of `n_layers` layers: speculative-decoding blocks
// (mtp.*, blk.N.* beyond the last layer), precomputed rotary frequencies, the expert bias of image tokens.
[[nodiscard]] bool is_side_tensor(std::string_view name, int n_layers) noexcept;

}  // namespace fathom
