#include "grammar/text_coding.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "core/ordered_json.h"
#include "core/utf8.h"

namespace fathom {
namespace {

constexpr char32_t kFullwidthBar = 0xff5c;

std::vector<char32_t> chars_of(std::string_view text) {
  std::vector<char32_t> chars;
  while (!text.empty()) {
    const Utf8Char c = decode_utf8(text);
    chars.push_back(c.value);
    text.remove_prefix(c.size);
  }
  return chars;
}

const CharSet& escaped_in_json() {
  static const CharSet set = {{0, 0x1f}, {'"', '"'}, {'\\', '\\'}};
  return set;
}

}  // namespace

ExprId coded_chars(Grammar& grammar, const CharSet& set, TextCoding coding) {
  if (coding == TextCoding::kPlain) {
    return grammar.chars(set);
  }
  if (coding == TextCoding::kArgument) {
    return grammar.chars(set.without({{kFullwidthBar, kFullwidthBar}}));
  }
  const CharSet escaped = set.intersected(escaped_in_json());
  const CharSet raw = set.without(escaped_in_json());
  std::vector<ExprId> choices;
  if (!raw.empty() || escaped.empty()) {
    choices.push_back(grammar.chars(raw));
  }
  std::string short_escapes;
  std::array<std::string, 2> hex_escapes;  // the last digits of \u000x and \u001x
  for (char32_t c = 0; c <= '\\'; ++c) {
    if (!escaped.contains(c)) {
      continue;
    }
    std::string text;
    append_json_escaped(text, std::string(1, static_cast<char>(c)));
    if (text.size() == 2) {
      short_escapes += text[1];
    } else {
      hex_escapes[static_cast<size_t>(text[4] - '0')] += text[5];
    }
  }
  const auto one_of = [&](const std::string& bytes) {
    CharSet chars;
    for (const char c : bytes) {
      chars.add(static_cast<char32_t>(c), static_cast<char32_t>(c));
    }
    return grammar.chars(std::move(chars));
  };
  if (!short_escapes.empty()) {
    choices.push_back(grammar.sequence({grammar.literal("\\"), one_of(short_escapes)}));
  }
  for (size_t i = 0; i < hex_escapes.size(); ++i) {
    if (!hex_escapes[i].empty()) {
      choices.push_back(grammar.sequence({grammar.literal(i == 0 ? "\\u000" : "\\u001"), one_of(hex_escapes[i])}));
    }
  }
  return grammar.choice(std::move(choices));
}

ExprId coded_text(Grammar& grammar, std::string_view text, TextCoding coding) {
  if (coding == TextCoding::kJson) {
    std::string escaped;
    append_json_escaped(escaped, text);
    return grammar.literal(escaped);
  }
  if (coding == TextCoding::kArgument && text.find("\uFF5C") != std::string_view::npos) {
    return grammar.nothing();
  }
  return grammar.literal(text);
}

// Node k: the last k characters are the first of the word, and no more of them are. All nodes lead to the last one.
ExprId text_without(Grammar& grammar, std::string_view word) {
  const std::vector<char32_t> chars = chars_of(word);
  // How much of the word a text ends with, of one that ended with k characters of it and has got one more.
  const auto longest = [&](size_t k, char32_t c) {
    std::vector<char32_t> text(chars.begin(), chars.begin() + static_cast<std::ptrdiff_t>(k));
    text.push_back(c);
    while (!text.empty() && !std::equal(text.begin(), text.end(), chars.begin())) {
      text.erase(text.begin());
    }
    return text.size();
  };
  const auto end = static_cast<uint32_t>(chars.size());
  std::vector<Expr::NetworkEdge> edges;
  for (uint32_t k = 0; k < end; ++k) {
    CharSet others = CharSet::all();
    for (const char32_t c : chars) {
      if (others.contains(c)) {
        others = others.without({{c, c}});
        if (const size_t next = longest(k, c); next < chars.size()) {
          edges.push_back({k, grammar.chars({{c, c}}), static_cast<uint32_t>(next)});
        }
      }
    }
    edges.push_back({k, grammar.chars(std::move(others)), 0});
    edges.push_back({k, grammar.literal(""), end});
  }
  return grammar.network(end + 1, std::move(edges));
}

}  // namespace fathom
