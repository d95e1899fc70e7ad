// Speed of llama.cpp (0.5.0) on a model file, measured as `fathom bench` does it; scripts/bench_peer.sh builds and runs
// it. Prints "PREFILL DECODE", medians in tokens per second: a prompt with the logits of its last token, then tokens
// one by one behind it.
//
// usage: peer_bench LIBRARY_DIR MODEL --prompt N --gen N --threads N --repeat N [--cpu-lib NAME]
//   --cpu-lib  one of the CPU libraries in LIBRARY_DIR; default: the one llama.cpp chooses
#include <ggml-backend.h>
#include <llama.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace {

struct Options {
  std::string libraries;
  std::string model;
  std::string cpu_library;
  int prompt = 512;
  int gen = 64;
  int threads = 2;
  int repeat = 3;
};

[[noreturn]] void fail(const std::string& text) {
  std::fprintf(stderr, "peer_bench: %s\n", text.c_str());
  std::exit(1);
}

Options parse(int argc, char** argv) {
  if (argc < 3) {
    fail("expected a folder of libraries and a model");
  }
  Options options;
  options.libraries = argv[1];
  options.model = argv[2];
  for (int i = 3; i + 1 < argc; i += 2) {
    const std::string name = argv[i];
    if (name == "--cpu-lib") {
      options.cpu_library = options.libraries + "/" + argv[i + 1];
    } else if (name == "--prompt") {
      options.prompt = std::atoi(argv[i + 1]);
    } else if (name == "--gen") {
      options.gen = std::atoi(argv[i + 1]);
    } else if (name == "--threads") {
      options.threads = std::atoi(argv[i + 1]);
    } else if (name == "--repeat") {
      options.repeat = std::atoi(argv[i + 1]);
    } else {
      fail("unknown option " + name);
    }
  }
  return options;
}

void log_errors(ggml_log_level level, const char* text, void* /*context*/) {
  if (level == GGML_LOG_LEVEL_ERROR) {
    std::fputs(text, stderr);
  }
}

// With its AMX buffers this version aborts on attn_output_a: that one stays in an ordinary buffer. The type of buffer
// made from a pointer is the one that it does not replace by AMX again.
llama_model* load(const Options& options) {
  alignas(4096) static std::array<char, 4096> dummy;
  ggml_backend_buffer_t buffer = ggml_backend_cpu_buffer_from_ptr(dummy.data(), dummy.size());
  const std::array<llama_model_tensor_buft_override, 2> overrides = {
      {{"attn_output_a", ggml_backend_buffer_get_type(buffer)}, {nullptr, nullptr}}};
  llama_model_params params = llama_model_default_params();
  params.n_gpu_layers = 0;
  params.tensor_buft_overrides = overrides.data();
  llama_model* model = llama_model_load_from_file(options.model.c_str(), params);
  if (model == nullptr) {
    fail("cannot load " + options.model);
  }
  return model;
}

llama_context* make_context(llama_model* model, const Options& options) {
  llama_context_params params = llama_context_default_params();
  params.n_ctx = static_cast<uint32_t>(options.prompt + options.gen + 8);
  params.n_batch = static_cast<uint32_t>(options.prompt);
  params.n_ubatch = 512;
  params.n_threads = options.threads;
  params.n_threads_batch = options.threads;
  llama_context* context = llama_init_from_model(model, params);
  if (context == nullptr) {
    fail("cannot make a context");
  }
  return context;
}

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// Seconds to run `n` tokens as one batch.
double run(llama_context* context, llama_token* tokens, int n) {
  const auto begin = std::chrono::steady_clock::now();
  if (llama_decode(context, llama_batch_get_one(tokens, n)) != 0) {
    fail("llama_decode failed");
  }
  llama_synchronize(context);
  return seconds_since(begin);
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[(values.size() - 1) / 2];
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse(argc, argv);
  llama_log_set(log_errors, nullptr);
  if (options.cpu_library.empty()) {
    ggml_backend_load_all_from_path(options.libraries.c_str());
  } else if (ggml_backend_load(options.cpu_library.c_str()) == nullptr) {
    fail("cannot load " + options.cpu_library);
  }
  llama_backend_init();
  llama_model* model = load(options);
  llama_context* context = make_context(model, options);

  const int vocab = llama_vocab_n_tokens(llama_model_get_vocab(model));
  std::vector<llama_token> tokens(static_cast<size_t>(options.prompt + options.gen));
  uint64_t state = 1;
  for (llama_token& token : tokens) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    token = static_cast<llama_token>((state >> 33) % static_cast<uint64_t>(vocab));
  }
  std::vector<double> prefill;
  std::vector<double> decode;
  for (int round = 0; round <= options.repeat; ++round) {
    const bool warm_up = round == 0;
    const int n_prompt = warm_up ? std::min(options.prompt, 32) : options.prompt;
    const int n_gen = warm_up ? std::min(options.gen, 2) : options.gen;
    llama_memory_clear(llama_get_memory(context), true);
    const double prompt_seconds = run(context, tokens.data(), n_prompt);
    double seconds = 0.0;
    for (int i = 0; i < n_gen; ++i) {
      seconds += run(context, &tokens[static_cast<size_t>(n_prompt + i)], 1);
    }
    if (!warm_up) {
      prefill.push_back(n_prompt / prompt_seconds);
      decode.push_back(n_gen / seconds);
    }
  }
  std::printf("%.2f %.2f\n", median(prefill), median(decode));
  llama_free(context);
  llama_model_free(model);
  llama_backend_free();
  return 0;
}
