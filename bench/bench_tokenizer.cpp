// Encoding speed with V4's vocabulary (scripts/fetch_test_tokenizer.sh): on this repository's documents and sources,
// and on the texts that are slowest.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "support/read_file.h"
#include "support/test_tokenizers.h"
#include "tokenizer/tokenizer.h"

namespace fathom {
namespace {

const Tokenizer& v4() {
  static const Tokenizer tokenizer(test::v4_tokenizer_data());
  return tokenizer;
}

// All files of this kind below a folder of the repository, at least a megabyte of them.
std::string corpus(const std::string& folder, const std::string& extension) {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(FATHOM_SOURCE_DIR "/" + folder)) {
    if (entry.path().extension() == extension) {
      paths.push_back(entry.path());
    }
  }
  std::ranges::sort(paths);
  std::string files;
  for (const auto& path : paths) {
    files += test::read_file(path.string());
  }
  std::string text = files;
  while (text.size() < 1'000'000) {
    text += files;
  }
  return text;
}

std::string repeated(std::string_view unit) {
  std::string text;
  while (text.size() < 1'000'000) {
    text += unit;
  }
  return text;
}

void encode(benchmark::State& state, const std::string& text) {
  if (!std::filesystem::exists(FATHOM_TEST_TOKENIZER)) {
    state.SkipWithError("no V4 vocabulary: run scripts/fetch_test_tokenizer.sh");
    return;
  }
  size_t n_tokens = v4().encode(text).size();
  for (auto _ : state) {
    benchmark::DoNotOptimize(v4().encode(text));
  }
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations()) * static_cast<int64_t>(text.size()));
  state.counters["bytes_per_token"] = static_cast<double>(text.size()) / static_cast<double>(n_tokens);
}

BENCHMARK_CAPTURE(encode, documents, corpus("docs", ".md"))->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(encode, sources, corpus("src", ".cpp"))->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(encode, chinese,
                  repeated("\u4ECA\u5929\u5929\u6C14\u5F88\u597D\uFF0C\u6211\u4EEC\u53BB\u516C\u56ED"
                           "\u6563\u6B65\u3002"))
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(encode, one_letter, repeated("a"))->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(encode, spaces, repeated(" "))->Unit(benchmark::kMillisecond);

void build(benchmark::State& state) {
  if (!std::filesystem::exists(FATHOM_TEST_TOKENIZER)) {
    state.SkipWithError("no V4 vocabulary: run scripts/fetch_test_tokenizer.sh");
    return;
  }
  const TokenizerData data = test::v4_tokenizer_data();
  for (auto _ : state) {
    benchmark::DoNotOptimize(Tokenizer(data));
  }
}

BENCHMARK(build)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace fathom
