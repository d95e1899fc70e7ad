#include "cli/saved_logits.h"

#include <fmt/format.h>

#include <cstring>

#include "core/check.h"
#include "core/error.h"

namespace fathom::cli {
namespace {

std::string header(size_t n, int vocab) {
  const uint64_t tokens_end = 4 + 4 * uint64_t{n};
  const uint64_t logits_end = tokens_end + 4 * uint64_t{n} * static_cast<uint64_t>(vocab);
  std::string json = fmt::format(R"({{"window":{{"dtype":"I32","shape":[1],"data_offsets":[0,4]}},)"
                                 R"("tokens":{{"dtype":"I32","shape":[{0}],"data_offsets":[4,{1}]}},)"
                                 R"("logits":{{"dtype":"F32","shape":[{0},{2}],"data_offsets":[{1},{3}]}}}})",
                                 n, tokens_end, vocab, logits_end);
  json.append((8 - json.size() % 8) % 8, ' ');
  const uint64_t length = json.size();
  std::string bytes(sizeof length, '\0');
  std::memcpy(bytes.data(), &length, sizeof length);
  return bytes + json;
}

const SafetensorsTensor& require(const SafetensorsFile& file, std::string_view name, SafetensorsDType dtype,
                                 const std::vector<uint64_t>& shape) {
  const SafetensorsTensor* tensor = file.find(name);
  if (tensor == nullptr || tensor->dtype != dtype || tensor->shape.size() != shape.size()) {
    throw Error(ErrorCode::kBadModel, fmt::format("{}: not a file of saved logits (tensor {})", file.path(), name));
  }
  if (tensor->shape != shape) {
    throw Error(ErrorCode::kBadRequest, fmt::format("{}: {} {}, but this text and model give {}", file.path(), name,
                                                    shape_text(tensor->shape), shape_text(shape)));
  }
  return *tensor;
}

}  // namespace

SavedLogitsWriter::SavedLogitsWriter(const std::string& path, int window, std::span<const TokenId> tokens, int vocab)
    : file_(path), missing_(tokens.size() * static_cast<uint64_t>(vocab)) {
  const std::string head = header(tokens.size(), vocab);
  file_.write(std::as_bytes(std::span(head)));
  file_.write(std::as_bytes(std::span(&window, 1)));
  file_.write(std::as_bytes(tokens));
}

void SavedLogitsWriter::append(std::span<const float> row) {
  FATHOM_CHECK(row.size() <= missing_, "more rows than tokens");
  file_.write(std::as_bytes(row));
  missing_ -= row.size();
}

void SavedLogitsWriter::commit() {
  FATHOM_CHECK(missing_ == 0, "fewer rows than tokens");
  file_.commit();
}

SavedLogits::SavedLogits(const std::string& path, int window, std::span<const TokenId> tokens, int vocab)
    : file_(SafetensorsFile::open(path)) {
  int32_t saved_window = 0;
  const SafetensorsTensor& window_tensor = require(file_, "window", SafetensorsDType::kI32, {1});
  std::memcpy(&saved_window, window_tensor.bytes.data(), sizeof saved_window);
  if (saved_window != window) {
    throw Error(ErrorCode::kBadRequest,
                fmt::format("{}: logits of windows of {} tokens, expected {} (--ctx)", path, saved_window, window));
  }
  const uint64_t n = tokens.size();
  const SafetensorsTensor& saved = require(file_, "tokens", SafetensorsDType::kI32, {n});
  if (std::memcmp(saved.bytes.data(), tokens.data(), tokens.size_bytes()) != 0) {
    throw Error(ErrorCode::kBadRequest, fmt::format("{}: logits of another text", path));
  }
  logits_ = require(file_, "logits", SafetensorsDType::kF32, {n, static_cast<uint64_t>(vocab)}).bytes;
}

void SavedLogits::read_row(size_t i, std::span<float> row) const {
  std::memcpy(row.data(), logits_.data() + i * row.size_bytes(), row.size_bytes());
}

}  // namespace fathom::cli
