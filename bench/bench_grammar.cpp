// Time per token mask with V4's vocabulary (scripts/fetch_test_tokenizer.sh), along texts that a model might write.
//   first: a grammar that was never used, as its first request sees it (the server makes the big tables beforehand)
//   new:   the same text again, its masks forgotten: positions that were not met before
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "grammar/json_schema.h"
#include "grammar/token_grammar.h"
#include "grammar/tool_calls.h"
#include "support/test_tokenizers.h"
#include "tokenizer/tokenizer.h"

namespace fathom {
namespace {

struct Sample {
  Grammar grammar;
  std::string text;
};

Sample person() {
  return {
      json_schema_grammar(R"({"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer",
            "minimum": 0, "maximum": 150}, "email": {"type": "string", "format": "email"}, "tags": {"type": "array",
            "items": {"enum": ["admin", "guest", "staff"]}}}, "required": ["name", "age", "email", "tags"]})"),
      R"({"name": "Ada Lovelace", "age": 36, "email": "ada@example.org", "tags": ["admin", "staff"]})"};
}

Sample nested() {
  return {
      json_schema_grammar(R"({"$ref": "#/$defs/node", "$defs": {"node": {"type": "object", "properties": {"title": {
            "type": "string", "maxLength": 80}, "done": {"type": "boolean"}, "children": {"type": "array",
            "items": {"$ref": "#/$defs/node"}}}, "required": ["title", "done", "children"]}}})"),
      R"({"title": "Write the engine, then measure it", "done": false, "children": [{"title": "Tokenizer", "done": true,)"
      R"( "children": []}, {"title": "A longer heading with \"quotes\" and numbers like 3.14", "done": false, )"
      R"("children": [{"title": "x", "done": true, "children": []}]}]})"};
}

Sample any_object() {
  return {json_object_grammar(),
          "{\n  \"a\": [1, 2.5, null],\n  \"b\": {\n    \"text\": \"Some words, and more of them.\",\n"
          "    \"list\": [\n      {\"x\": true},\n      \"y\"\n    ]\n  }\n}"};
}

Sample file_tool() {
  const std::string dsml(literal::kDsml);
  const std::vector<CallableTool> tools = {
      {"write_file", R"({"type": "object", "properties": {"path": {"type": "string"}, "content": {"type": "string"},
                        "mode": {"type": "integer"}}, "required": ["path", "content"]})"},
      {"run", R"({"type": "object", "properties": {"command": {"type": "array", "items": {"type": "string"}}}})"}};
  std::string text =
      "\n\n<|tool_calls>\n<|invoke name=\"write_file\">\n<|parameter name=\"path\" string=\"true\">src/main.cpp"
      "</|parameter>\n<|parameter name=\"content\" string=\"true\">#include <vector>\n\nint main() {\n"
      "  std::vector<int> v = {1, 2, 3};  // a < b\n  return v[0] < 2 ? 0 : 1;\n}\n</|parameter>\n"
      "<|parameter name=\"mode\" string=\"false\">420</|parameter>\n</|invoke>\n</|tool_calls>";
  for (size_t at = text.find('|'); at != std::string::npos; at = text.find('|', at)) {
    text.replace(at, 1, dsml);
  }
  return {tool_calls_grammar(tools, {}), text};
}

void masks(benchmark::State& state, Sample (*make)(), bool first) {
  if (!std::filesystem::exists(FATHOM_TEST_TOKENIZER)) {
    state.SkipWithError("no V4 vocabulary: run scripts/fetch_test_tokenizer.sh");
    return;
  }
  static const Tokenizer tokenizer(test::v4_tokenizer_data());
  const Sample sample = make();
  const std::vector<TokenId> tokens = tokenizer.encode(sample.text);
  static const auto shared = std::make_shared<const GrammarVocabulary>(tokenizer);
  auto grammar = std::make_unique<TokenGrammar>(sample.grammar, shared);
  grammar->prepare();
  std::vector<double> times;
  std::vector<uint64_t> mask;
  for (auto _ : state) {
    state.PauseTiming();
    if (first) {
      grammar = std::make_unique<TokenGrammar>(sample.grammar, shared);
      grammar->prepare();
    } else {
      grammar->forget_masks();
    }
    state.ResumeTiming();
    Matcher matcher = grammar->begin();
    for (const TokenId token : tokens) {
      const auto begin = std::chrono::steady_clock::now();
      grammar->fill_mask(matcher, mask);
      if (!grammar->accept(matcher, token)) {
        state.SkipWithError("the text is not one of the grammar");
        return;
      }
      times.push_back(std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count());
    }
  }
  std::ranges::sort(times);
  double sum = 0.0;
  for (const double t : times) {
    sum += t;
  }
  state.counters["tokens"] = static_cast<double>(tokens.size());
  state.counters["mean_us"] = sum / static_cast<double>(times.size());
  state.counters["p50_us"] = times[times.size() / 2];
  state.counters["p99_us"] = times[times.size() * 99 / 100];
  state.counters["max_us"] = times.back();
}

BENCHMARK_CAPTURE(masks, person_new, person, false)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(masks, person_first, person, true)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(masks, nested_new, nested, false)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(masks, nested_first, nested, true)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(masks, any_object_new, any_object, false)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(masks, any_object_first, any_object, true)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(masks, file_tool_new, file_tool, false)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(masks, file_tool_first, file_tool, true)->Unit(benchmark::kMillisecond);

void prepare(benchmark::State& state, Sample (*make)()) {
  if (!std::filesystem::exists(FATHOM_TEST_TOKENIZER)) {
    state.SkipWithError("no V4 vocabulary: run scripts/fetch_test_tokenizer.sh");
    return;
  }
  static const Tokenizer tokenizer(test::v4_tokenizer_data());
  for (auto _ : state) {
    state.PauseTiming();
    const auto vocabulary = std::make_shared<const GrammarVocabulary>(tokenizer);
    state.ResumeTiming();
    TokenGrammar(make().grammar, vocabulary).prepare();
  }
}

// The first grammar for a vocabulary: later ones share its big tables.
BENCHMARK_CAPTURE(prepare, person, person)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(prepare, nested, nested)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(prepare, any_object, any_object)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(prepare, file_tool, file_tool)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace fathom
