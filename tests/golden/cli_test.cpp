// The built program, black box: what every command prints, writes and returns.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>

#include "support/fathom_program.h"
#include "support/temp_dir.h"

namespace fathom::test {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;
using Json = nlohmann::json;

const std::string kMini = FATHOM_TEST_DATA_DIR "/oracle/mini";

void expect_failure(const ProcessResult& result, int exit_code, const std::string& text) {
  EXPECT_EQ(result.exit_code, exit_code) << result.err;
  EXPECT_EQ(result.out, "") << "errors do not go to standard output";
  EXPECT_THAT(result.err, StartsWith("fathom: error: "));
  EXPECT_THAT(result.err, HasSubstr(text));
  EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
}

#define EXPECT_USAGE_ERROR(text, ...)             \
  do {                                            \
    SCOPED_TRACE(text);                           \
    expect_failure(fathom(__VA_ARGS__), 2, text); \
  } while (false)

#define EXPECT_FATHOM_ERROR(text, ...)            \
  do {                                            \
    SCOPED_TRACE(text);                           \
    expect_failure(fathom(__VA_ARGS__), 1, text); \
  } while (false)

std::string ids_text(int first, int n, int vocab) {
  std::string text;
  for (int i = 0; i < n; ++i) {
    text += std::to_string((first + 7 * i) % vocab) + (i % 10 == 9 ? "\n" : " ");
  }
  return text;
}

TEST(Program, PrintsHelpAndVersionOnStandardOutput) {
  const ProcessResult version = fathom({"--version"});
  EXPECT_EQ(version.exit_code, 0);
  EXPECT_THAT(version.out, StartsWith("fathom "));
  EXPECT_EQ(version.err, "");
  for (const char* command : {"run", "chat", "serve", "logits", "perplexity", "inspect", "tokenize", "detokenize",
                              "render", "convert", "synth", "bench", "cache"}) {
    const ProcessResult help = fathom({command, "--help"});
    EXPECT_EQ(help.exit_code, 0) << command;
    EXPECT_THAT(help.out, HasSubstr("Options:")) << command;
    EXPECT_THAT(help.out, Not(HasSubstr("--help-all"))) << command;
    EXPECT_EQ(help.err, "");
    EXPECT_THAT(fathom({"--help"}).out, HasSubstr(command));
  }
}

TEST(Render, ShowsThePromptOfARequest) {
  const std::string request = R"({"messages": [{"role": "user", "content": "A"}, {"role": "system", "content": "B"}]})";
  EXPECT_EQ(fathom({"render"}, request).out, "<\uFF5Cbegin\u2581of\u2581sentence\uFF5C><\uFF5CUser\uFF5C>AB");
  EXPECT_EQ(fathom({"render", "--as-served", "--think", "low"}, request).out,
            "<\uFF5Cbegin\u2581of\u2581sentence\uFF5C><\uFF5CUser\uFF5C>A\n\nB<\uFF5CAssistant\uFF5C><think>");
}

TEST(Render, ShowsWhatIsTrusted) {
  const std::string list = R"([{"role": "user", "content": "A"}])";
  const Json prompt = Json::parse(fathom({"render", "--json"}, list).out);
  EXPECT_THAT(prompt.at("text").get<std::string>(), HasSubstr("A"));
  EXPECT_EQ(prompt.at("trusted").size(), 2U);
  EXPECT_EQ(Json::parse(fathom({"render", "--json", "--strict-official-tokens"}, list).out).at("trusted").size(), 1U);
}

TEST(Render, OffersToolsAndTakesADialect) {
  const std::string request = R"({"messages": [{"role": "user", "content": "A"}], "tools": [{"name": "f"}]})";
  EXPECT_THAT(fathom({"render"}, request).out, HasSubstr("\n\n{\"name\": \"f\"}\n\nYou MUST"));
  EXPECT_THAT(fathom({"render", "--dialect", "official", "--think", "max"}, request).out, HasSubstr("Beyond maximum"));
  EXPECT_THAT(fathom({"render", "--dialect", "preview", "--think", "max"}, request).out, HasSubstr("Absolute maximum"));
}

TEST(Render, RejectsWhatIsNoRequest) {
  expect_failure(fathom({"render"}, "{"), 1, "standard input: not valid JSON");
  expect_failure(fathom({"render"}, "{}"), 1, "standard input: expected a list of messages or an object");
  expect_failure(fathom({"render"}, "[{}]"), 1, "messages[0].role: expected a string, got nothing");
}

TEST(Program, ReturnsTwoForACommandLineThatMakesNoSense) {
  EXPECT_USAGE_ERROR("no command given", {});
  EXPECT_USAGE_ERROR("unknown command 'nonsense'", {"nonsense", "more"});
  EXPECT_USAGE_ERROR("unknown option '--nonsense'", {"run", "--nonsense"});
  EXPECT_USAGE_ERROR("unknown option '--nonsense'", {"--nonsense"});
  EXPECT_USAGE_ERROR("unexpected argument 'there'", {"run", "Hi", "there", "you"});
  EXPECT_USAGE_ERROR("'-m' stands before the command, expected behind it", {"-m", "a.gguf", "run", "Hi"});
  EXPECT_USAGE_ERROR("run needs a prompt", {"run"});
  EXPECT_USAGE_ERROR("--file", {"run", "-p", "a", "-f", "b"});
  EXPECT_USAGE_ERROR("--raw", {"run", "a", "--raw", "--chat"});
  EXPECT_USAGE_ERROR("--temp", {"run", "a", "--temp", "warm"});
  EXPECT_USAGE_ERROR("temperature: -1", {"run", "a", "--temp", "-1"});
  EXPECT_USAGE_ERROR("top_p: 1.5", {"chat", "--top-p", "1.5"});
  EXPECT_USAGE_ERROR("repetition_penalty: 0", {"run", "a", "--repetition-penalty", "0"});
  EXPECT_USAGE_ERROR("presence_penalty: 3", {"run", "a", "--presence-penalty", "3"});
  EXPECT_USAGE_ERROR("frequency_penalty: -3", {"run", "a", "--frequency-penalty", "-3"});
  EXPECT_USAGE_ERROR("--system", {"run", "a", "--raw", "--system", "b"});
  EXPECT_USAGE_ERROR("--seed: empty, expected a number", {"run", "a", "--seed", ""});
  EXPECT_USAGE_ERROR("--temp: empty, expected a number", {"run", "a", "--temp", ""});
  EXPECT_USAGE_ERROR("--think", {"run", "a", "--think", "hard"});
  EXPECT_USAGE_ERROR("--max-tokens", {"run", "a", "-n", "-1"});
  EXPECT_USAGE_ERROR("--backend", {"chat", "--backend", "gpu"});
  EXPECT_USAGE_ERROR("--threads", {"chat", "--threads", "0"});
  EXPECT_USAGE_ERROR("--tokens is required", {"logits", "--out", "x"});
  EXPECT_USAGE_ERROR("--out is required", {"logits", "--tokens", "x"});
  EXPECT_USAGE_ERROR("--chunk", {"logits", "--tokens", "x", "--out", "y", "--chunk", "0"});
  EXPECT_USAGE_ERROR("--kv-type", {"logits", "--tokens", "x", "--out", "y", "--kv-type", "f16"});
  EXPECT_USAGE_ERROR("--activation-sim", {"logits", "--tokens", "x", "--out", "y", "--activation-sim", "yes"});
  EXPECT_USAGE_ERROR("--file is required", {"perplexity"});
  EXPECT_USAGE_ERROR("--against", {"perplexity", "-f", "x", "--save-logits", "a", "--against", "b"});
  EXPECT_USAGE_ERROR("--plan", {"inspect", "--ctx", "5"});
  EXPECT_USAGE_ERROR("SOURCE is required", {"convert", "-o", "x"});
  EXPECT_USAGE_ERROR("--type", {"convert", kMini, "-o", "x", "--type", "Q9_0"});
  EXPECT_USAGE_ERROR("--gen", {"bench", "--gen", "1048577"});
  EXPECT_USAGE_ERROR("--seqs", {"bench", "--seqs", "1025"});
  EXPECT_USAGE_ERROR("--dialect", {"convert", kMini, "-o", "x", "--dialect", "klingon"});
}

TEST(Program, SaysWhenOutputIsLost) {
  for (const char* arguments : {"--help", "--version", "inspect --json"}) {
    const std::string line = std::string(FATHOM_PROGRAM) + " " + arguments;
    const ProcessResult full = run_process({"/bin/sh", "-c", line + " > /dev/full"}, {});
    EXPECT_EQ(full.exit_code, 1) << line;
    EXPECT_EQ(full.err, "fathom: error: standard output: cannot write: No space left on device\n") << line;
    const ProcessResult closed = run_process({"/bin/sh", "-c", line + " >&-"}, {});
    EXPECT_EQ(closed.exit_code, 1) << line;
    EXPECT_EQ(closed.err, "fathom: error: standard output: cannot write: Bad file descriptor\n") << line;
  }
}

// The descriptors of closed streams must not go to the file that is written.
TEST(Program, WritesTheSameFileWithoutStandardStreams) {
  const TempDir dir;
  ASSERT_EQ(fathom({"synth", "tiny", "-o", dir.file("a")}).exit_code, 0);
  const std::string line = std::string(FATHOM_PROGRAM) + " synth tiny -o " + dir.file("b") + " <&- >&- 2>&-";
  EXPECT_EQ(run_process({"/bin/sh", "-c", line}, {}).exit_code, 1);
  EXPECT_EQ(read_file_bytes(dir.file("b")), read_file_bytes(dir.file("a")));
}

TEST(Program, ErrorsCarryNoControlCharacters) {
  EXPECT_FATHOM_ERROR("a [31m b: cannot open", {"inspect", "a\033[31m\nb"});
}

TEST(Program, EveryCommandNamesTheModelItCannotOpen) {
  const TempDir dir;
  const std::string ids = dir.write("ids.txt", "1 2 3");
  const std::string missing = dir.file("missing.gguf");
  const std::string garbage = dir.write("garbage.gguf", "this is no model");
  for (const std::string& model : {missing, garbage}) {
    EXPECT_FATHOM_ERROR(model, {"run", "-m", model, "Hi"});
    EXPECT_FATHOM_ERROR(model, {"chat", "-m", model});
    EXPECT_FATHOM_ERROR(model, {"logits", "-m", model, "--tokens", ids, "--out", dir.file("o.npy")});
    EXPECT_FATHOM_ERROR(model, {"perplexity", "-m", model, "-f", ids});
    EXPECT_FATHOM_ERROR(model, {"inspect", model});
    EXPECT_FATHOM_ERROR(model, {"tokenize", "-m", model});
    EXPECT_FATHOM_ERROR(model, {"detokenize", "-m", model});
    EXPECT_FATHOM_ERROR(model, {"convert", model, "-o", dir.file("o.gguf")});
  }
}

TEST(Program, SaysWhenABackendIsNotInTheBuild) {
#ifdef FATHOM_HAS_CUDA
  GTEST_SKIP() << "this build has all backends";
#endif
  const TempDir dir;
  const std::string ids = dir.write("ids.txt", "1 2 3");
  EXPECT_FATHOM_ERROR("CUDA",
                      {"logits", "-m", kMini, "--tokens", ids, "--out", dir.file("o.npy"), "--backend", "cuda"});
}

TEST(Run, AnswersArithmeticGreedily) {
  const ProcessResult result = fathom({"run", "What is 27 + 48?", "--temp", "0"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.out, "27 + 48 = 75\n");
  EXPECT_EQ(result.err, "") << "the speed is shown on a terminal only";
}

TEST(Run, TakesThePromptFromOptionOrFile) {
  const TempDir dir;
  const std::string file = dir.write("prompt.txt", "What is 27 + 48?\n");
  const std::string answer = "27 + 48 = 75\n";
  EXPECT_EQ(fathom({"run", "-p", "What is 27 + 48?", "--temp", "0"}).out, answer);
  EXPECT_EQ(fathom({"run", "-f", file, "--temp", "0"}).out, answer);
  EXPECT_EQ(fathom({"run", "-f", "-", "--temp", "0"}, "What is 27 + 48?\n").out, answer);
}

TEST(Run, ThinkingGoesToStderr) {
  const ProcessResult result = fathom({"run", "What is 345 + 278?", "--temp", "0", "--think", "low"});
  EXPECT_EQ(result.out, "345 + 278 = 623\n");
  EXPECT_THAT(result.err, HasSubstr("Hundreds"));
}

TEST(Run, RawContinuesTheText) {
  const ProcessResult chat = fathom({"run", "Once upon a time", "--temp", "0", "-n", "8"});
  const ProcessResult raw = fathom({"run", "Once upon a time", "--temp", "0", "-n", "8", "--raw"});
  EXPECT_EQ(raw.exit_code, 0) << raw.err;
  EXPECT_NE(raw.out, chat.out);
}

TEST(Run, StopsAtAStopStringAndAtTheTokenLimit) {
  EXPECT_EQ(fathom({"run", "What is 27 + 48?", "--temp", "0", "--stop", " = "}).out, "27 + 48\n");
  EXPECT_EQ(fathom({"run", "What is 27 + 48?", "--temp", "0", "--stop", "x", "--stop", "48"}).out, "27 + \n");
  EXPECT_EQ(fathom({"run", "What is 27 + 48?", "--temp", "0", "-n", "2"}).out, "27\n");
}

TEST(Run, SeedsRepeatAndTheSpeedLineTellsThem) {
  const std::vector<std::string> command{
      "run", "Tell me a short story about a dog.", "--temp", "1", "-n", "24", "--seed", "7", "--verbose"};
  const ProcessResult first = fathom(command);
  EXPECT_EQ(first.exit_code, 0) << first.err;
  EXPECT_EQ(fathom(command).out, first.out);
  EXPECT_THAT(first.err, HasSubstr("24 generated"));
  EXPECT_THAT(first.err, HasSubstr("seed 7"));
}

TEST(Run, RejectsWhatItCannotSample) {
  EXPECT_FATHOM_ERROR("stop", {"run", "Hi", "--stop", ""});
  EXPECT_FATHOM_ERROR("/nonexistent", {"run", "-f", "/nonexistent"});
  EXPECT_FATHOM_ERROR("no tokenizer.json", {"run", "-m", kMini, "Hi"});
}

TEST(Run, SystemInstructionsPrecedeThePrompt) {
  const std::vector<std::string> plain{"run", "Hi", "--temp", "0", "-n", "1", "--verbose"};
  std::vector<std::string> with_system = plain;
  with_system.insert(with_system.end(), {"--system", "Be brief."});
  const auto prompt_tokens = [](const ProcessResult& result) {
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return std::stoi(result.err);  // "23 prompt tokens, ..."
  };
  const std::string system_ids = fathom({"tokenize", "--ids"}, "Be brief.").out;
  const auto n_system = static_cast<int>(std::count(system_ids.begin(), system_ids.end(), ' ') + 1);
  EXPECT_EQ(prompt_tokens(fathom(with_system)), prompt_tokens(fathom(plain)) + n_system);
}

TEST(Run, PenaltiesChangeWhatComesNext) {
  const std::vector<std::string> plain{"run", "--raw", "one two one two one two", "--temp", "0", "-n", "12"};
  const std::string unpenalised = fathom(plain).out;
  for (const char* penalty : {"--repetition-penalty", "--presence-penalty", "--frequency-penalty"}) {
    std::vector<std::string> command = plain;
    command.insert(command.end(), {penalty, "2"});
    const ProcessResult result = fathom(command);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_NE(result.out, unpenalised) << penalty;
  }
}

TEST(Chat, GoesOnFromDiskAndCacheLooksAfterTheFiles) {
  const TempDir dir;
  const std::string kv = dir.file("kv");
  const std::vector<std::string> chat{"chat", "--temp", "0", "--kv-dir", kv};
  const ProcessResult first = fathom(chat, "What is 27 + 48?\n");
  ASSERT_EQ(first.exit_code, 0) << first.err;
  EXPECT_EQ(fathom(chat, "What is 27 + 48?\n").out, first.out);
  EXPECT_EQ(fathom({"chat", "--temp", "0", "--cache-budget", "0"}, "What is 27 + 48?\n").out, first.out);
  EXPECT_FATHOM_ERROR("kv_dir: prefix_bytes is 0", {"chat", "--kv-dir", kv, "--cache-budget", "0"});

  const ProcessResult list = fathom({"cache", "list", kv, "--json"});
  ASSERT_EQ(list.exit_code, 0) << list.err;
  const Json models = Json::parse(list.out);
  ASSERT_EQ(models.size(), 1U);
  EXPECT_GE(models[0]["anchors"], 1);
  EXPECT_GT(models[0]["longest"], 5);
  EXPECT_THAT(fathom({"cache", "list", kv}).out, HasSubstr(models[0]["fingerprint"].get<std::string>()));

  EXPECT_EQ(Json::parse(fathom({"cache", "verify", kv, "--json"}).out)["damaged"], 0);
  std::string segment;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(kv)) {
    segment = entry.path().extension() == ".seg" ? entry.path().string() : segment;
  }
  std::fstream(segment, std::ios::in | std::ios::out | std::ios::binary).seekp(-1, std::ios::end).put('\x5A');
  const ProcessResult damaged = fathom({"cache", "verify", kv});
  EXPECT_EQ(damaged.exit_code, 1);
  EXPECT_THAT(damaged.out, HasSubstr(" 1 damaged"));
  EXPECT_THAT(damaged.err, HasSubstr("is damaged"));
  EXPECT_EQ(fathom(chat, "What is 27 + 48?\n").out, first.out) << "what is damaged is not used";

  const ProcessResult prune = fathom({"cache", "prune", kv, "--budget", "0", "--json"});
  EXPECT_EQ(Json::parse(prune.out)["left_bytes"], 0);
  EXPECT_GT(Json::parse(prune.out)["removed_bytes"], 0);
  EXPECT_FATHOM_ERROR("not a directory", {"cache", "list", dir.file("nowhere")});
  EXPECT_USAGE_ERROR("DIR", {"cache", "list"});
  EXPECT_USAGE_ERROR("--budget", {"cache", "prune", kv});
}

TEST(Chat, RemembersClearsAndLeaves) {
  const ProcessResult result =
      fathom({"chat", "--temp", "0"}, "What is 27 + 48?\n\n/help\n/nonsense\n/clear\nWhat is 27 + 48?\n/exit\nnever\n");
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.out, "27 + 48 = 75\n27 + 48 = 75\n");
  EXPECT_THAT(result.err, HasSubstr("/clear"));
  EXPECT_THAT(result.err, HasSubstr("/nonsense: no such command"));
}

TEST(Chat, JoinsContinuedLines) {
  EXPECT_EQ(fathom({"chat", "--temp", "0"}, "What is \\\n27 + 48?\n").out,
            fathom({"run", "What is \n27 + 48?", "--temp", "0"}).out);
}

TEST(Chat, InterruptStopsTheReplyOnly) {
  const std::string ask = "Tell me a short story about a dog and a boy named Tom.\n";
  const std::string whole = fathom({"chat", "--temp", "0"}, ask).out;
  const ProcessResult result =
      run_process({FATHOM_PROGRAM, "chat", "--temp", "0"},
                  {.input = ask + "/clear\nWhat is 27 + 48?\n", .timeout_s = 120, .signal_on_output = SIGINT});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  const std::string rest = "\n27 + 48 = 75\n";
  ASSERT_TRUE(result.out.ends_with(rest)) << result.out;
  const std::string story = result.out.substr(0, result.out.size() - rest.size());
  EXPECT_TRUE(whole.starts_with(story));
  EXPECT_LT(story.size() + 1, whole.size()) << "the reply was over before the signal came";
}

TEST(Chat, NeedsATokenizer) { EXPECT_FATHOM_ERROR("no tokenizer.json", {"chat", "-m", kMini}); }

TEST(Tokenize, IdsAndTextAreInverse) {
  const std::string text = "Hello, \xE4\xBD\xA0\xE5\xA5\xBD 12345\n\ttab <think>";
  const ProcessResult ids = fathom({"tokenize", "--ids"}, text);
  EXPECT_EQ(ids.exit_code, 0) << ids.err;
  EXPECT_EQ(fathom({"detokenize"}, ids.out).out, text);

  const ProcessResult lines = fathom({"tokenize"}, text);
  EXPECT_THAT(lines.out, HasSubstr("     5 \"<think>\"\n"));
  EXPECT_THAT(lines.out, HasSubstr("\\n"));
  const ProcessResult plain = fathom({"tokenize", "--no-special", "--ids"}, text);
  EXPECT_NE(plain.out, ids.out);
  EXPECT_EQ(fathom({"detokenize"}, plain.out).out, text);
}

TEST(Tokenize, ReplacesInvalidUtf8) {
  const ProcessResult ids = fathom({"tokenize", "--ids"},
                                   "a\xFF"
                                   "b");
  EXPECT_EQ(fathom({"detokenize"}, ids.out).out,
            "a\xEF\xBF\xBD"
            "b");
}

TEST(Detokenize, NamesWhatIsNoId) {
  expect_failure(fathom({"detokenize"}, "1 2\nthree"), 1, "standard input: line 2: 'three' is not a token id");
  expect_failure(fathom({"detokenize"}, "99999"), 1, "outside the vocabulary");
}

class LogitsTest : public testing::Test {
 protected:
  LogitsTest() : ids_(dir_.write("ids.txt", ids_text(3, 150, 256))) {}

  NpyMatrix logits(std::vector<std::string> options, const std::string& model = kMini) {
    const std::string out = dir_.file("out.npy");
    std::vector<std::string> command{"logits", "-m", model, "--tokens", ids_, "--out", out};
    command.insert(command.end(), options.begin(), options.end());
    const ProcessResult result = fathom(command);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_THAT(result.out, HasSubstr("[150, 256]"));
    return read_npy(out);
  }

  TempDir dir_;
  std::string ids_;
};

TEST_F(LogitsTest, DoNotDependOnHowTokensAreFed) {
  for (const char* sim : {"on", "off"}) {
    const NpyMatrix whole = logits({"--activation-sim", sim});
    EXPECT_EQ(whole.rows, 150U);
    for (const auto& options : std::vector<std::vector<std::string>>{{"--chunk", "1"},
                                                                     {"--chunk", "7"},
                                                                     {"--chunk", "128"},
                                                                     {"--steps", "150"},
                                                                     {"--chunk", "9", "--steps", "33"}}) {
      std::vector<std::string> all{"--activation-sim", sim};
      all.insert(all.end(), options.begin(), options.end());
      EXPECT_EQ(logits(all).values, whole.values) << testing::PrintToString(all);
    }
  }
}

TEST_F(LogitsTest, SimulationChangesThem) {
  EXPECT_NE(logits({"--activation-sim", "on"}).values, logits({"--activation-sim", "off"}).values);
}

TEST_F(LogitsTest, NameWhatIsWrong) {
  const std::string out = dir_.file("never.npy");
  const auto run = [&](const std::string& tokens, std::vector<std::string> more = {}) {
    std::vector<std::string> command{"logits", "-m", kMini, "--tokens", tokens, "--out", out};
    command.insert(command.end(), more.begin(), more.end());
    return fathom(command);
  };
  expect_failure(run(dir_.write("bad.txt", "1 2\nx")), 1, "line 2: 'x' is not a token id");
  expect_failure(run(dir_.write("far.txt", "1 256")), 1, "'256' is outside the vocabulary, expected 0 to 255");
  expect_failure(run(dir_.write("empty.txt", " \n")), 1, "no token ids");
  expect_failure(run(ids_, {"--steps", "151"}), 1, "--steps 151 is more than the 150 tokens");
  expect_failure(run("/nonexistent"), 1, "/nonexistent");
  expect_failure(run("-"), 1, "standard input: no token ids");
  expect_failure(run(ids_, {"--activation-sim", "off", "--kv-type", "packed"}), 1, "packed");
  EXPECT_FALSE(std::filesystem::exists(out));
  expect_failure(fathom({"logits", "-m", kMini, "--tokens", ids_, "--out", "/nonexistent/o.npy"}), 1,
                 "/nonexistent/o.npy");
}

class PerplexityTest : public testing::Test {
 protected:
  PerplexityTest() : text_(dir_.write("text.txt", "Tom and Martha were playing at the beach. Tom had a gray dog.")) {}

  Json measure(std::vector<std::string> options) {
    options.insert(options.begin(), {"perplexity", "-f", text_, "--json"});
    const ProcessResult result = fathom(options);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return Json::parse(result.out);
  }

  TempDir dir_;
  std::string text_;
};

TEST_F(PerplexityTest, IsThatOfTheLogits) {
  // The same from `tokenize` and `logits`: one window, begun by the document mark.
  const std::string ids = "0 " + fathom({"tokenize", "--ids", "--no-special"}, read_file_bytes(text_)).out;
  const std::string npy = dir_.file("l.npy");
  const ProcessResult result = fathom({"logits", "--tokens", dir_.write("ids.txt", ids), "--out", npy});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const NpyMatrix logits = read_npy(npy);
  std::istringstream stream(ids);
  std::vector<size_t> tokens;
  for (size_t id = 0; stream >> id;) {
    tokens.push_back(id);
  }
  double nll = 0.0;
  for (size_t i = 0; i + 1 < tokens.size(); ++i) {
    const float* row = logits.row(i);
    const double sum = std::accumulate(row, row + logits.cols, 0.0,
                                       [](double total, float x) { return total + std::exp(static_cast<double>(x)); });
    nll += std::log(sum) - row[tokens[i + 1]];
  }
  nll /= static_cast<double>(tokens.size() - 1);

  const Json json = measure({});
  EXPECT_EQ(json.at("tokens"), tokens.size() - 1);
  EXPECT_NEAR(json.at("nll").get<double>(), nll, 1e-6);
  EXPECT_NEAR(json.at("perplexity").get<double>(), std::exp(nll), 1e-5);
}

TEST_F(PerplexityTest, ModelDoesNotDivergeFromItself) {
  const std::string saved = dir_.file("saved");
  const Json alone = measure({"--save-logits", saved, "--ctx", "8"});
  const Json json = measure({"--against", saved, "--ctx", "8"});
  EXPECT_EQ(json.at("nll"), alone.at("nll"));
  EXPECT_EQ(json.at("kl_max"), 0.0);
  EXPECT_EQ(json.at("same_top"), 1.0);
}

TEST_F(PerplexityTest, SeesADifference) {
  const std::string saved = dir_.file("saved");
  measure({"--save-logits", saved});
  const Json json = measure({"--against", saved, "--activation-sim", "off"});
  EXPECT_GT(json.at("kl_mean").get<double>(), 0.0);
  EXPECT_LT(json.at("kl_mean").get<double>(), 0.01);
  EXPECT_GE(json.at("kl_max").get<double>(), json.at("kl_p99").get<double>());
}

TEST_F(PerplexityTest, RejectsWhatCannotBeCompared) {
  const std::string saved = dir_.file("saved");
  measure({"--save-logits", saved});
  EXPECT_FATHOM_ERROR("no text", {"perplexity", "-f", dir_.write("empty", "")});
  EXPECT_FATHOM_ERROR("logits of windows of 512 tokens, expected 8 (--ctx)",
                      {"perplexity", "-f", text_, "--against", saved, "--ctx", "8"});
  EXPECT_FATHOM_ERROR("but this text and model give",
                      {"perplexity", "-f", dir_.write("short", "Tom"), "--against", saved});
  std::string other = read_file_bytes(text_);
  other.back() = '!';
  EXPECT_FATHOM_ERROR("logits of another text", {"perplexity", "-f", dir_.write("other", other), "--against", saved});
  EXPECT_FATHOM_ERROR("not a file of saved logits",
                      {"perplexity", "-f", text_, "--against", kMini + "/model.safetensors"});
}

TEST(Inspect, DescribesTheBundledModel) {
  const ProcessResult result = fathom({"inspect", "--json", "--tensors"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  const Json json = Json::parse(result.out);
  EXPECT_EQ(json.at("format"), "gguf");
  constexpr int kTrained = 14431783;
  constexpr int kRoutingBiases = 3 * 4;  // of the layers that choose experts by score: adjusted, not trained
  EXPECT_EQ(json.at("parameters"), kTrained + kRoutingBiases);
  EXPECT_EQ(json.at("config").at("layers"), 5);
  EXPECT_EQ(json.at("config").at("compress_ratios"), Json({0, 0, 4, 128, 4}));
  EXPECT_EQ(json.at("metadata").at("general.architecture"), "deepseek4");
  EXPECT_EQ(json.at("tensor_list").size(), json.at("tensors"));
  uint64_t bytes = 0;
  for (const Json& tensor : json.at("tensor_list")) {
    bytes += tensor.at("bytes").get<uint64_t>();
  }
  EXPECT_EQ(bytes, json.at("bytes"));

  EXPECT_THAT(fathom({"inspect"}).out, HasSubstr("14.4 M parameters"));
}

TEST(Inspect, PlansMemory) {
  const auto plan = [](std::vector<std::string> options) {
    options.insert(options.begin(), {"inspect", "-m", kMini, "--json", "--plan"});
    const ProcessResult result = fathom(options);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return Json::parse(result.out).at("plan");
  };
  const Json one = plan({"--ctx", "1024"});
  EXPECT_EQ(one.at("context"), 1024);
  EXPECT_EQ(one.at("total_bytes"), one.at("packed_weight_bytes").get<uint64_t>() +
                                       one.at("activation_bytes").get<uint64_t>() +
                                       one.at("cache_bytes").get<uint64_t>());
  EXPECT_EQ(plan({"--ctx", "1024", "--seqs", "3"}).at("cache_bytes"), 3 * one.at("cache_bytes").get<uint64_t>());
  EXPECT_EQ(plan({"--ctx", "2048"}).at("cache_compressed_bytes"), 2 * one.at("cache_compressed_bytes").get<uint64_t>());
  EXPECT_EQ(plan({}).at("context"), 4096);
  EXPECT_FATHOM_ERROR("a context of 4097 positions exceeds the model's 4096",
                      {"inspect", "-m", kMini, "--plan", "--ctx", "4097"});
}

}  // namespace
}  // namespace fathom::test
