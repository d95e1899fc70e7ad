// Logits of llama.cpp (0.5.0) for a text, in the file that `fathom perplexity --against` reads; scripts/quality.sh
// builds and runs it. Every window is a document of its own, as in `fathom perplexity`. Key and value rows are kept in
// float32.
//
// usage: peer_logits LIBRARY_DIR CPU_LIBRARY MODEL TOKENS OUT WINDOW THREADS
//   CPU_LIBRARY  one of the CPU libraries in LIBRARY_DIR; "best": the one llama.cpp chooses
//   TOKENS       ids separated by whitespace
#include <ggml-backend.h>
#include <llama.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace {

[[noreturn]] void fail(const std::string& text) {
  std::fprintf(stderr, "peer_logits: %s\n", text.c_str());
  std::exit(1);
}

void log_errors(ggml_log_level level, const char* text, void* /*context*/) {
  if (level == GGML_LOG_LEVEL_ERROR) {
    std::fputs(text, stderr);
  }
}

void write(std::ofstream& out, const void* data, size_t bytes) {
  out.write(static_cast<const char*>(data), static_cast<std::streamsize>(bytes));
}

void write_header(std::ofstream& out, size_t n, int vocab) {
  const size_t tokens = 4 + 4 * n;
  const size_t all = tokens + 4 * n * static_cast<size_t>(vocab);
  std::string json = R"({"window":{"dtype":"I32","shape":[1],"data_offsets":[0,4]},"tokens":{"dtype":"I32","shape":[)" +
                     std::to_string(n) + R"(],"data_offsets":[4,)" + std::to_string(tokens) +
                     R"(]},"logits":{"dtype":"F32","shape":[)" + std::to_string(n) + "," + std::to_string(vocab) +
                     R"(],"data_offsets":[)" + std::to_string(tokens) + "," + std::to_string(all) + "]}}";
  json.append((8 - json.size() % 8) % 8, ' ');
  const uint64_t length = json.size();
  write(out, &length, sizeof length);
  write(out, json.data(), json.size());
}

// With its AMX buffers this version aborts on attn_output_a: that one stays in an ordinary buffer.
llama_model* load(const std::string& path) {
  alignas(4096) static std::array<char, 4096> dummy;
  ggml_backend_buffer_t buffer = ggml_backend_cpu_buffer_from_ptr(dummy.data(), dummy.size());
  const std::array<llama_model_tensor_buft_override, 2> overrides = {
      {{"attn_output_a", ggml_backend_buffer_get_type(buffer)}, {nullptr, nullptr}}};
  llama_model_params params = llama_model_default_params();
  params.n_gpu_layers = 0;
  params.tensor_buft_overrides = overrides.data();
  llama_model* model = llama_model_load_from_file(path.c_str(), params);
  if (model == nullptr) {
    fail("cannot load " + path);
  }
  return model;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 8) {
    fail("expected LIBRARY_DIR CPU_LIBRARY MODEL TOKENS OUT WINDOW THREADS");
  }
  const std::string libraries = argv[1];
  const std::string cpu_library = argv[2];
  const size_t window = std::strtoul(argv[6], nullptr, 10);
  llama_log_set(log_errors, nullptr);
  if (cpu_library == "best") {
    ggml_backend_load_all_from_path(libraries.c_str());
  } else if (ggml_backend_load((libraries + "/" + cpu_library).c_str()) == nullptr) {
    fail("cannot load " + cpu_library);
  }
  llama_backend_init();
  llama_model* model = load(argv[3]);
  const llama_vocab* vocab = llama_model_get_vocab(model);
  const int n_vocab = llama_vocab_n_tokens(vocab);

  std::ifstream in(argv[4]);
  const std::vector<llama_token> tokens((std::istream_iterator<llama_token>(in)), {});
  if (tokens.empty() || window == 0) {
    fail("no tokens");
  }

  llama_context_params params = llama_context_default_params();
  params.n_ctx = static_cast<uint32_t>(window);
  params.n_batch = static_cast<uint32_t>(window);
  params.n_ubatch = static_cast<uint32_t>(window);
  params.n_threads = params.n_threads_batch = std::atoi(argv[7]);
  params.type_k = params.type_v = GGML_TYPE_F32;
  params.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_DISABLED;
  llama_context* context = llama_init_from_model(model, params);
  if (context == nullptr) {
    fail("cannot make a context");
  }

  std::ofstream out(argv[5], std::ios::binary);
  write_header(out, tokens.size(), n_vocab);
  const auto saved_window = static_cast<int32_t>(window);
  write(out, &saved_window, sizeof saved_window);
  write(out, tokens.data(), tokens.size() * sizeof(llama_token));
  for (size_t begin = 0; begin < tokens.size(); begin += window) {
    const size_t n = std::min(window, tokens.size() - begin);
    llama_memory_clear(llama_get_memory(context), true);
    llama_batch batch = llama_batch_init(static_cast<int32_t>(n), 0, 1);
    batch.n_tokens = static_cast<int32_t>(n);
    for (size_t i = 0; i < n; ++i) {
      batch.token[i] = i == 0 ? llama_vocab_bos(vocab) : tokens[begin + i - 1];
      batch.pos[i] = static_cast<llama_pos>(i);
      batch.n_seq_id[i] = 1;
      batch.seq_id[i][0] = 0;
      batch.logits[i] = 1;
    }
    if (llama_decode(context, batch) != 0) {
      fail("llama_decode failed");
    }
    for (size_t i = 0; i < n; ++i) {
      write(out, llama_get_logits_ith(context, static_cast<int32_t>(i)), static_cast<size_t>(n_vocab) * sizeof(float));
    }
    llama_batch_free(batch);
  }
  out.flush();
  if (!out) {
    fail(std::string("cannot write ") + argv[5]);
  }
  llama_free(context);
  llama_model_free(model);
  llama_backend_free();
  return 0;
}
