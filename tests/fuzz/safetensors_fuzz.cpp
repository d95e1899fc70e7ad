// Any bytes as a safetensors file: an Error, or weights whose every byte can be read.
#include <cstdint>
#include <span>

#include "core/error.h"
#include "support/touch_weights.h"
#include "weights/safetensors_source.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    fathom::SafetensorsFile file =
        fathom::SafetensorsFile::parse(std::as_bytes(std::span(data, size)), "fuzz.safetensors");
    fathom::test::touch_weights(*fathom::make_safetensors_source(fathom::SafetensorsModel::from_file(std::move(file))));
  } catch (const fathom::Error&) {
  }
  return 0;
}
