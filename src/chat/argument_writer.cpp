#include "chat/argument_writer.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "core/ordered_json.h"

namespace fathom {
namespace {

using Flag = DsmlTag::Flag;

std::string_view trim(std::string_view text) {
  constexpr std::string_view kWhitespace = " \t\r\n";
  const size_t begin = text.find_first_not_of(kWhitespace);
  return begin == std::string_view::npos ? std::string_view{}
                                         : text.substr(begin, text.find_last_not_of(kWhitespace) - begin + 1);
}

std::string json_string(std::string_view text) {
  std::string json = "\"";
  append_json_escaped(json, text);
  return json += '"';
}

// Whether text labelled as a string may still become another type.
bool may_convert(Flag flag, JsonTypes types) {
  return flag == Flag::kString ? types != JsonTypes::kUnknown && !allows(types, JsonTypes::kString)
                               : types != JsonTypes::kUnknown;
}

}  // namespace

bool ArgumentWriter::begin(std::string_view name, Flag flag, std::string& out) {
  write_wrapper(out);
  name_ = name;
  flag_ = flag;
  types_ = schema_.types(name_);
  const bool is_first = names_.empty();
  if (has_body_ || !names_.insert(name_).second) {
    mode_ = Mode::kSkip;
    return false;
  }
  if (is_first && (name == "arguments" || name == "input") && !schema_.has(name_)) {
    wrapper_.emplace(Wrapper{.name = name_, .text = {}, .json = {}});
    mode_ = Mode::kBuffer;
  } else if (flag == Flag::kJson || may_convert(flag, types_)) {
    mode_ = Mode::kBuffer;
  } else {
    mode_ = Mode::kString;
    write_name(out);
    out += '"';
  }
  return true;
}

void ArgumentWriter::text(std::string_view piece, std::string& out) {
  if (mode_ == Mode::kString) {
    append_json_escaped(out, piece);
  } else if (mode_ == Mode::kBuffer || mode_ == Mode::kBody) {
    buffer_ += piece;
  }
}

void ArgumentWriter::end(std::string& out) {
  switch (std::exchange(mode_, Mode::kNone)) {
    case Mode::kString:
      out += '"';
      break;
    case Mode::kBuffer:
      if (wrapper_) {
        wrapper_->json = buffered_json();
        wrapper_->text = std::move(buffer_);
      } else {
        write_name(out);
        out += buffered_json();
      }
      break;
    case Mode::kBody:
      write_body(out);
      break;
    case Mode::kNone:
    case Mode::kSkip:
      break;
  }
  buffer_.clear();
}

void ArgumentWriter::begin_body() {
  mode_ = Mode::kBody;
  has_body_ = true;
}

void ArgumentWriter::finish(std::string& out) {
  if (wrapper_ && is_wrapped()) {
    out += python_json(*parse_ordered_json(wrapper_->text));
    return;
  }
  write_wrapper(out);
  if (!has_body_) {
    out += is_open_ ? "}" : "{}";
  }
}

void ArgumentWriter::write_name(std::string& out) {
  out += is_open_ ? ", " : "{";
  is_open_ = true;
  out += json_string(name_);
  out += ": ";
}

void ArgumentWriter::write_wrapper(std::string& out) {
  if (wrapper_) {
    name_ = wrapper_->name;
    write_name(out);
    out += wrapper_->json;
    wrapper_.reset();
  }
}

// The body goes out as a whole, so that it is an object without equal keys.
void ArgumentWriter::write_body(std::string& out) {
  const auto object = parse_ordered_json(buffer_);
  if (object && object->is_object()) {
    out += python_json(*object);
  } else {
    out += "{\"arguments\": " + json_string(trim(buffer_)) + "}";
  }
}

// Whether the one parameter holds an object whose members are the tool's parameters.
bool ArgumentWriter::is_wrapped() const {
  const auto object = parse_ordered_json(wrapper_->text);
  if (!object || !object->is_object()) {
    return false;
  }
  for (const auto& [name, ignored] : object->items()) {
    if (!schema_.has(name)) {
      return false;
    }
  }
  return true;
}

std::string ArgumentWriter::buffered_json() const {
  const std::string_view json = trim(buffer_);
  const bool converts = may_convert(flag_, types_);
  if (allows(types_, JsonTypes::kBoolean) && (flag_ == Flag::kJson || converts)) {
    if (json == "True" || json == "False") {  // Python's spelling
      return json == "True" ? "true" : "false";
    }
  }
  const std::optional<JsonTypes> type = type_of_json(json);
  const bool is_value = flag_ == Flag::kJson ? type.has_value()
                                             : converts && type && *type != JsonTypes::kString && allows(types_, *type);
  return is_value ? std::string(json) : json_string(buffer_);
}

}  // namespace fathom
