// The arguments of one call as JSON text that only grows: parameters go in as the model writes them.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>

#include "chat/dsml_tag.h"
#include "chat/tool_schema.h"

namespace fathom {

// Every function appends what is certain by then to `out`. All of it together is one JSON object once finish() was
// called, whatever went in.
class ArgumentWriter {
 public:
  // `schema` outlives the writer.
  explicit ArgumentWriter(const ToolSchema& schema) : schema_(schema) {}

  // A parameter: begin, its text in any pieces of whole characters, end. False for one whose name was there before: it
  // is left out, since what was sent cannot be taken back.
  bool begin(std::string_view name, DsmlTag::Flag flag, std::string& out);
  void text(std::string_view piece, std::string& out);
  void end(std::string& out);

  // Takes the text that follows, up to end(), for all of the arguments: a model wrote JSON instead of parameters.
  void begin_body();

  void finish(std::string& out);

  // Nothing was begun yet.
  [[nodiscard]] bool empty() const { return names_.empty() && mode_ == Mode::kNone && !has_body_; }

 private:
  enum class Mode : uint8_t { kNone, kString, kBuffer, kBody, kSkip };
  struct Wrapper {
    std::string name;
    std::string text;
    std::string json;
  };

  void write_name(std::string& out);
  void write_wrapper(std::string& out);
  void write_body(std::string& out);
  [[nodiscard]] bool is_wrapped() const;
  [[nodiscard]] std::string buffered_json() const;

  const ToolSchema& schema_;
  std::unordered_set<std::string> names_;
  Mode mode_ = Mode::kNone;
  // The parameter that is being read.
  std::string name_;
  DsmlTag::Flag flag_ = DsmlTag::Flag::kNone;
  JsonTypes types_ = JsonTypes::kUnknown;
  std::string buffer_;
  // The only parameter so far, if it may turn out to hold all of the arguments.
  std::optional<Wrapper> wrapper_;
  bool has_body_ = false;
  bool is_open_ = false;  // the brace was written
};

}  // namespace fathom
