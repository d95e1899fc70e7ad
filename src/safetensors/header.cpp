#include "safetensors/header.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <unordered_set>
#include <utility>

#include "core/error.h"
#include "core/json_text.h"
#include "core/printable.h"

namespace fathom {
namespace {

constexpr size_t kMaxRank = 8;

std::string supported_dtypes() {
  std::string text;
  for (int i = 0; i <= static_cast<int>(SafetensorsDType::kF64); ++i) {
    text += text.empty() ? "" : ", ";
    text += safetensors_dtype_info(static_cast<SafetensorsDType>(i)).name;
  }
  return text;
}

// Called by the parser for each token; a token that the current state does not allow is an error at once.
class HeaderReader : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit HeaderReader(const std::string& file) : file_(file) {}

  std::vector<SafetensorsEntry> take() { return std::move(entries_); }

  bool start_object(size_t /*n_elements*/) override {
    switch (state_) {
      case State::kStart:
        state_ = State::kNames;
        return true;
      case State::kTensor:
        fields_seen_.clear();
        state_ = State::kFields;
        return true;
      case State::kMetadata:
        state_ = State::kMetadataKeys;
        return true;
      default:
        unexpected("an object");
    }
  }

  bool key(string_t& name) override {
    switch (state_) {
      case State::kNames:
        begin_entry(name);
        return true;
      case State::kFields:
        begin_field(name);
        return true;
      case State::kMetadataKeys:
        state_ = State::kMetadataText;
        return true;
      default:
        unexpected("a key");
    }
  }

  bool end_object() override {
    switch (state_) {
      case State::kFields:
        end_entry();
        [[fallthrough]];
      case State::kMetadataKeys:
        state_ = State::kNames;
        return true;
      default:  // kNames: the end of the header
        state_ = State::kEnd;
        return true;
    }
  }

  bool start_array(size_t /*n_elements*/) override {
    if (state_ == State::kShape) {
      state_ = State::kShapeItems;
      return true;
    }
    if (state_ == State::kOffsets) {
      n_offsets_ = 0;
      state_ = State::kOffsetItems;
      return true;
    }
    unexpected("an array");
  }

  bool end_array() override {
    if (state_ == State::kOffsetItems && n_offsets_ != 2) {
      fail(fmt::format("{} data_offsets, expected 2", n_offsets_));
    }
    state_ = State::kFields;
    return true;
  }

  bool number_unsigned(number_unsigned_t value) override {
    SafetensorsEntry* entry = entries_.empty() ? nullptr : &entries_.back();
    if (state_ == State::kShapeItems) {
      if (entry->shape.size() == kMaxRank) {
        fail(fmt::format("more than {} dimensions", kMaxRank));
      }
      entry->shape.push_back(value);
      return true;
    }
    if (state_ == State::kOffsetItems && n_offsets_ < 2) {
      (n_offsets_ == 0 ? entry->begin : entry->end) = value;
      ++n_offsets_;
      return true;
    }
    unexpected(fmt::format("{}", value));
  }

  bool string(string_t& text) override {
    if (state_ == State::kMetadataText) {
      state_ = State::kMetadataKeys;
      return true;
    }
    if (state_ == State::kDtype) {
      const auto dtype = safetensors_dtype_from_name(text);
      if (!dtype) {
        throw Error(ErrorCode::kUnsupported,
                    fmt::format("{}: tensor {}: dtype {}; supported are {}", file_, printable(entries_.back().name),
                                printable(text), supported_dtypes()));
      }
      entries_.back().dtype = *dtype;
      state_ = State::kFields;
      return true;
    }
    unexpected("a string");
  }

  bool null() override { unexpected("null"); }
  bool boolean(bool /*value*/) override { unexpected("a bool"); }
  bool number_integer(number_integer_t value) override { unexpected(fmt::format("{}", value)); }
  bool number_float(number_float_t /*value*/, const string_t& text) override { unexpected(printable(text)); }
  bool binary(binary_t& /*value*/) override { unexpected("binary data"); }

  bool parse_error(size_t /*position*/, const std::string& /*token*/, const nlohmann::json::exception& error) override {
    throw Error(ErrorCode::kBadModel,
                fmt::format("{}: header is not valid JSON: {}", file_, json_error_text(error.what())));
  }

 private:
  // What comes next.
  enum class State : uint8_t {
    kStart,
    kNames,   // of tensors, or __metadata__
    kTensor,  // the object behind a name
    kFields,
    kDtype,
    kShape,
    kShapeItems,
    kOffsets,
    kOffsetItems,
    kMetadata,  // the object behind __metadata__
    kMetadataKeys,
    kMetadataText,
    kEnd,
  };

  void begin_entry(const std::string& name) {
    if (!names_seen_.insert(name).second) {
      throw Error(ErrorCode::kBadModel, fmt::format("{}: tensor {} occurs twice", file_, printable(name)));
    }
    if (name == kSafetensorsMetadataKey) {
      state_ = State::kMetadata;
      return;
    }
    entries_.emplace_back().name = name;
    state_ = State::kTensor;
  }

  void begin_field(const std::string& field) {
    if (field == "dtype") {
      state_ = State::kDtype;
    } else if (field == "shape") {
      state_ = State::kShape;
    } else if (field == "data_offsets") {
      state_ = State::kOffsets;
    } else {
      fail(fmt::format("field {}, expected dtype, shape and data_offsets", printable(field)));
    }
    if (!fields_seen_.insert(field).second) {
      fail(fmt::format("{} occurs twice", field));
    }
  }

  void end_entry() {
    for (const char* field : {"dtype", "shape", "data_offsets"}) {
      if (!fields_seen_.contains(field)) {
        fail(fmt::format("no {}", field));
      }
    }
  }

  [[noreturn]] void unexpected(const std::string& got) const {
    switch (state_) {
      case State::kStart:
        throw Error(ErrorCode::kBadModel, fmt::format("{}: header is {}, expected an object", file_, got));
      case State::kMetadata:
      case State::kMetadataText:
        throw Error(ErrorCode::kBadModel,
                    fmt::format("{}: {} holds {}, expected texts", file_, kSafetensorsMetadataKey, got));
      case State::kTensor:
        fail(fmt::format("is {}, expected an object", got));
      case State::kDtype:
        fail(fmt::format("dtype is {}, expected a string", got));
      case State::kShape:
      case State::kShapeItems:
        fail(fmt::format("shape has {}, expected an array of counts", got));
      default:
        fail(fmt::format("data_offsets has {}, expected two counts of bytes", got));
    }
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw Error(ErrorCode::kBadModel, fmt::format("{}: tensor {}: {}", file_, printable(entries_.back().name), what));
  }

  const std::string& file_;
  State state_ = State::kStart;
  std::vector<SafetensorsEntry> entries_;
  std::unordered_set<std::string> names_seen_;
  std::unordered_set<std::string> fields_seen_;  // of the tensor being read
  int n_offsets_ = 0;
};

}  // namespace

std::vector<SafetensorsEntry> parse_safetensors_header(std::string_view text, const std::string& file) {
  HeaderReader reader(file);
  nlohmann::json::sax_parse(text, &reader);
  return reader.take();
}

}  // namespace fathom
