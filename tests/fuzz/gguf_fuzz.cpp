// Any bytes as a GGUF file: an Error, or metadata, tensors, weights and a config whose every byte can be read.
#include <cstdint>
#include <memory>
#include <span>

#include "core/error.h"
#include "gguf/gguf_file.h"
#include "gguf/gguf_writer.h"
#include "model/config_reader.h"
#include "support/touch_weights.h"
#include "weights/gguf_source.h"

namespace {

// Calls `read`, which may refuse the value.
template <class Read>
void try_read(const Read& read) {
  try {
    (void)read();
  } catch (const fathom::Error&) {
  }
}

void read_value(const fathom::GgufValue& value) {
  (void)value.type_text();
  (void)fathom::GgufKv::copy(value);
  try_read([&] { return value.to_int(); });
  try_read([&] { return value.to_float(); });
  try_read([&] { return value.to_bool(); });
  try_read([&] { return value.to_string().size(); });
  try_read([&] { return value.to_ints().size(); });
  try_read([&] { return value.to_floats().size(); });
  try_read([&] { return value.to_ints_per_layer(3).size(); });
  try_read([&] { return value.to_floats_per_layer(3).size(); });
  try_read([&] {
    size_t n = 0;
    for (const std::string_view text : value.to_strings()) {
      n += text.empty() ? 0 : static_cast<unsigned char>(text.back());
    }
    return n;
  });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    fathom::GgufFile file = fathom::GgufFile::parse(std::as_bytes(std::span(data, size)), "fuzz.gguf");
    for (const fathom::GgufValue& value : file.metadata()) {
      read_value(value);
    }
    try_read([&] { return fathom::read_gguf_config(file).n_layers; });
    fathom::test::touch_weights(*fathom::make_gguf_source(std::move(file)));
  } catch (const fathom::Error&) {
  }
  return 0;
}
