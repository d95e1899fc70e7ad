// Hugging Face's tokenizer.json. Reads the one kind of tokenizer that this engine has, and says what differs otherwise.
// Its post_processor is ignored: prompts carry their own BOS.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string>

#include "core/error.h"
#include "core/json_text.h"
#include "core/prompt_text.h"
#include "tokenizer/tokenizer_data.h"

namespace fathom {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kDigitTriples = R"(\p{N}{1,3})";
constexpr std::string_view kSingleDigits = R"(\p{N})";
constexpr std::string_view kCjkRuns = "[\u4E00-\u9FA5\u3040-\u309F\u30A0-\u30FF]+";
constexpr std::string_view kWords =
    R"re([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+)re"
    R"re(| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)re";

[[noreturn]] void fail(const std::string& what) { throw Error(ErrorCode::kBadModel, "tokenizer.json: " + what); }
[[noreturn]] void fail_unsupported(const std::string& what) {
  throw Error(ErrorCode::kUnsupported, "tokenizer.json: " + what);
}

// `path` names the parent in messages.
const Json& member(const Json& parent, std::string_view path, const char* key) {
  const auto found = parent.is_object() ? parent.find(key) : parent.end();
  if (found == parent.end()) {
    fail(fmt::format("no {}.{}", path, key));
  }
  return *found;
}

template <class T>
const T& as(const Json& value, std::string_view path, const char* type) {
  const T* typed = value.get_ptr<const T*>();
  if (typed == nullptr) {
    fail(fmt::format("{} is of type {}, expected {}", path, value.type_name(), type));
  }
  return *typed;
}

const Json::array_t& as_array(const Json& value, std::string_view path) {
  return as<Json::array_t>(value, path, "array");
}
const std::string& as_string(const Json& value, std::string_view path) {
  return as<std::string>(value, path, "string");
}

size_t as_token_id(const Json& value, std::string_view path) {
  if (!value.is_number_integer()) {
    fail(fmt::format("{} is of type {}, expected integer", path, value.type_name()));
  }
  const auto id = value.get<int64_t>();  // unsigned values beyond int64_t come out negative
  if (id < 0 || static_cast<size_t>(id) >= kMaxTokens) {
    fail(fmt::format("{} is {}, expected 0 to {}", path, id, kMaxTokens - 1));
  }
  return static_cast<size_t>(id);
}

// Absent, null, false and "" all switch a feature off.
void require_off(const Json& parent, std::string_view path, const char* key) {
  const auto found = parent.find(key);
  const bool is_off = found == parent.end() || found->is_null() || *found == false || *found == "";
  if (!is_off) {
    fail_unsupported(fmt::format("{}.{} is set", path, key));
  }
}

// One way of writing the same expression: files differ in how they escape line breaks and quotes.
std::string canonical_regex(std::string_view regex) {
  std::string result;
  for (size_t i = 0; i < regex.size(); ++i) {
    const char c = regex[i];
    if (c == '\r' || c == '\n') {
      result += c == '\r' ? "\\r" : "\\n";
    } else if (regex.substr(i, 2) != "\\\"") {
      result += c;
    }
  }
  return result;
}

// The regular expression of a Split that isolates its matches.
std::string split_regex(const Json& step, std::string_view path) {
  if (member(step, path, "type") != "Split" || member(step, path, "behavior") != "Isolated") {
    fail_unsupported(fmt::format("{} is not a Split with behavior Isolated", path));
  }
  require_off(step, path, "invert");
  const std::string pattern_path = fmt::format("{}.pattern", path);
  return canonical_regex(
      as_string(member(member(step, path, "pattern"), pattern_path, "Regex"), pattern_path + ".Regex"));
}

PreTokenizer read_pre_tokenizer(const Json& root) {
  const Json& sequence = member(root, "root", "pre_tokenizer");
  const auto& steps = as_array(member(sequence, "pre_tokenizer", "pretokenizers"), "pre_tokenizer.pretokenizers");
  constexpr size_t kNumSteps = 4;
  if (steps.size() != kNumSteps) {
    fail_unsupported(fmt::format("pre_tokenizer has {} steps, expected {}", steps.size(), kNumSteps));
  }
  std::array<std::string, 3> splits;
  for (size_t i = 0; i < splits.size(); ++i) {
    splits[i] = split_regex(steps[i], fmt::format("pre_tokenizer step {}", i));
  }
  if ((splits[0] != kDigitTriples && splits[0] != kSingleDigits) || splits[1] != kCjkRuns || splits[2] != kWords) {
    fail_unsupported("the pre_tokenizer's regular expressions are not DeepSeek's");
  }
  const std::string_view last_path = "pre_tokenizer step 3";
  if (member(steps[3], last_path, "type") != "ByteLevel") {
    fail_unsupported(fmt::format("{} is not ByteLevel", last_path));
  }
  require_off(steps[3], last_path, "use_regex");
  require_off(steps[3], last_path, "add_prefix_space");
  return splits[0] == kDigitTriples ? PreTokenizer::kDeepSeekV3 : PreTokenizer::kDeepSeekV3SingleDigits;
}

void set_token(TokenizerData& data, size_t id, const std::string& spelling, TokenType type) {
  if (id >= data.tokens.size()) {
    data.tokens.resize(id + 1);
    data.types.resize(id + 1, TokenType::kUnused);
  }
  if (data.types[id] != TokenType::kUnused && data.tokens[id] != spelling) {
    fail(fmt::format("token id {} has two strings", id));
  }
  data.tokens[id] = spelling;
  data.types[id] = type;
}

void read_vocabulary(const Json& model, TokenizerData& data) {
  const auto& vocabulary = as<Json::object_t>(member(model, "model", "vocab"), "model.vocab", "object");
  for (const auto& [spelling, id] : vocabulary) {
    set_token(data, as_token_id(id, "an id in model.vocab"), spelling, TokenType::kNormal);
  }
}

void read_added_tokens(const Json& root, TokenizerData& data) {
  size_t i = 0;
  for (const Json& token : as_array(member(root, "root", "added_tokens"), "added_tokens")) {
    const std::string path = fmt::format("added_tokens[{}]", i++);
    const size_t id = as_token_id(member(token, path, "id"), path + ".id");
    const std::string& literal = as_string(member(token, path, "content"), path + ".content");
    for (const char* key : {"lstrip", "rstrip", "single_word"}) {
      require_off(token, path, key);
    }
    const bool is_special = token.value("special", Json()) == true;
    set_token(data, id, literal, is_special ? TokenType::kControl : TokenType::kUserDefined);
  }
}

// A merge is "left right" or ["left", "right"].
void read_merges(const Json& model, TokenizerData& data) {
  const auto& merges = as_array(member(model, "model", "merges"), "model.merges");
  data.merges.reserve(merges.size());
  for (const Json& merge : merges) {
    const std::string path = fmt::format("model.merges[{}]", data.merges.size());
    if (merge.is_array() && merge.size() == 2) {
      data.merges.push_back(as_string(merge[0], path) + ' ' + as_string(merge[1], path));
    } else {
      data.merges.push_back(as_string(merge, path));
    }
  }
}

std::optional<TokenId> id_of(const TokenizerData& data, std::string_view literal) {
  const auto found = std::ranges::find(data.tokens, literal);
  if (found == data.tokens.end()) {
    return std::nullopt;
  }
  return static_cast<TokenId>(found - data.tokens.begin());
}

}  // namespace

TokenizerData parse_tokenizer_json(std::string_view json) {
  const Json root = parse_json(json, "tokenizer.json");
  const Json& model = member(root, "root", "model");
  if (member(model, "model", "type") != "BPE") {
    fail_unsupported("model.type is not BPE");
  }
  for (const char* key :
       {"dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix", "byte_fallback", "ignore_merges"}) {
    require_off(model, "model", key);
  }
  const auto normalizer = root.find("normalizer");
  if (normalizer != root.end() && !normalizer->is_null() &&
      !as_array(member(*normalizer, "normalizer", "normalizers"), "normalizer.normalizers").empty()) {
    fail_unsupported("normalizer is set");
  }

  TokenizerData data;
  data.pre_tokenizer = read_pre_tokenizer(root);
  read_vocabulary(model, data);
  read_added_tokens(root, data);
  read_merges(model, data);
  data.bos = id_of(data, literal::kBos);
  data.eos = id_of(data, literal::kEos);
  data.pad = id_of(data, literal::kPad);
  return data;
}

}  // namespace fathom
