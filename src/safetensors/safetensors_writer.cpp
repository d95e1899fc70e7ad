#include "safetensors/safetensors_writer.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "core/atomic_file.h"
#include "core/check.h"

namespace fathom {
namespace {

constexpr size_t kHeaderAlignment = 8;

// Largest elements first: then every tensor is aligned to its element.
std::vector<const SafetensorsTensor*> data_order(std::span<const SafetensorsTensor> tensors) {
  std::vector<const SafetensorsTensor*> order;
  for (const SafetensorsTensor& tensor : tensors) {
    order.push_back(&tensor);
  }
  std::stable_sort(order.begin(), order.end(), [](const SafetensorsTensor* a, const SafetensorsTensor* b) {
    return safetensors_dtype_info(a->dtype).n_bytes > safetensors_dtype_info(b->dtype).n_bytes;
  });
  return order;
}

// The length and the JSON text.
std::string encode_header(std::span<const SafetensorsTensor* const> order) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  uint64_t offset = 0;
  for (const SafetensorsTensor* tensor : order) {
    const SafetensorsDTypeInfo& info = safetensors_dtype_info(tensor->dtype);
    uint64_t expected = static_cast<uint64_t>(info.n_bytes);
    for (const uint64_t dim : tensor->shape) {
      expected *= dim;
    }
    FATHOM_CHECK(tensor->bytes.size() == expected, "the bytes of the shape");
    FATHOM_CHECK(!header.contains(tensor->name), "tensor names are distinct");
    header[tensor->name] = {
        {"dtype", info.name}, {"shape", tensor->shape}, {"data_offsets", {offset, offset + expected}}};
    offset += expected;
  }
  std::string text = header.dump();
  text.append((kHeaderAlignment - text.size() % kHeaderAlignment) % kHeaderAlignment, ' ');
  const uint64_t size = text.size();
  return std::string(reinterpret_cast<const char*>(&size), sizeof(size)) + text;
}

}  // namespace

void write_safetensors(const std::string& path, std::span<const SafetensorsTensor> tensors) {
  const auto order = data_order(tensors);
  AtomicFile file(path);
  file.write(std::as_bytes(std::span<const char>(encode_header(order))));
  for (const SafetensorsTensor* tensor : order) {
    file.write(tensor->bytes);
  }
  file.commit();
}

std::string encode_safetensors(std::span<const SafetensorsTensor> tensors) {
  const auto order = data_order(tensors);
  std::string image = encode_header(order);
  for (const SafetensorsTensor* tensor : order) {
    image.append(reinterpret_cast<const char*>(tensor->bytes.data()), tensor->bytes.size());
  }
  return image;
}

}  // namespace fathom
