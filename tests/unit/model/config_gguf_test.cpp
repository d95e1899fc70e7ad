#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "gguf/gguf_file.h"
#include "model/config_reader.h"
#include "support/expect_error.h"
#include "support/file_bytes.h"
#include "support/gguf_bytes.h"

namespace fathom {
namespace {

using test::as_byte_span;
using test::GgufBytes;

constexpr uint32_t kU32 = 4;
constexpr uint32_t kI32 = 5;
constexpr uint32_t kF32 = 6;
constexpr uint32_t kBool = 7;
constexpr uint32_t kString = 8;
constexpr uint32_t kArray = 9;
constexpr uint32_t kU64 = 10;
constexpr uint32_t kF64 = 12;

// Metadata that a test changes before it is read.
class Keys {
 public:
  struct Key {
    std::string name;
    uint32_t type;
    std::string encoded;
  };

  // A model of 4 layers as converters write it.
  Keys() {
    set("general.architecture", kString, GgufBytes::str("deepseek4"));
    set("general.name", kString, GgufBytes::str("Tiny"));
    for (const auto& [name, value] : std::vector<std::pair<std::string, uint32_t>>{
             {"block_count", 4},
             {"context_length", 4096},
             {"embedding_length", 256},
             {"vocab_size", 512},
             {"attention.head_count", 8},
             {"attention.head_count_kv", 1},
             {"attention.key_length", 128},
             {"attention.value_length", 128},
             {"rope.dimension_count", 64},
             {"attention.q_lora_rank", 96},
             {"attention.output_lora_rank", 48},
             {"attention.output_group_count", 2},
             {"attention.sliding_window", 32},
             {"attention.indexer.head_count", 4},
             {"attention.indexer.key_length", 72},
             {"attention.indexer.top_k", 16},
             {"expert_count", 12},
             {"expert_used_count", 3},
             {"expert_feed_forward_length", 80},
             {"expert_shared_count", 2},
             {"expert_gating_func", 4},
             {"hyper_connection.count", 4},
             {"hyper_connection.sinkhorn_iterations", 7},
             {"hash_layer_count", 1},
             {"rope.scaling.original_context_length", 1024},
         }) {
      u32(name, value);
    }
    f32("attention.layer_norm_rms_epsilon", 1e-5F);
    f32("rope.freq_base", 5000.0F);
    f32("attention.compress_rope_freq_base", 40000.0F);
    f32("expert_weights_scale", 2.5F);
    f32("hyper_connection.epsilon", 1e-7F);
    f32("swiglu_clamp_exp", 7.0F);
    f32("rope.scaling.factor", 8.0F);
    f32("rope.scaling.yarn_beta_fast", 24.0F);
    f32("rope.scaling.yarn_beta_slow", 2.0F);
    string("rope.scaling.type", "yarn");
    boolean("expert_weights_norm", true);
    i32s("attention.compress_ratios", {0, 4, 128, 4});
  }

  Keys& set(const std::string& name, uint32_t type, const std::string& encoded) {
    const auto found = std::find_if(keys_.begin(), keys_.end(), [&](const Key& k) { return k.name == name; });
    (found == keys_.end() ? keys_.emplace_back() : *found) = {name, type, encoded};
    return *this;
  }
  Keys& drop(const std::string& name) {
    std::erase_if(keys_, [&](const Key& key) { return key.name == full(name) || key.name == name; });
    return *this;
  }
  Keys& u32(const std::string& name, uint32_t value) { return set(full(name), kU32, GgufBytes::pod(value)); }
  Keys& u64(const std::string& name, uint64_t value) { return set(full(name), kU64, GgufBytes::pod(value)); }
  Keys& f32(const std::string& name, float value) { return set(full(name), kF32, GgufBytes::pod(value)); }
  Keys& string(const std::string& name, const std::string& value) {
    return set(full(name), kString, GgufBytes::str(value));
  }
  Keys& boolean(const std::string& name, bool value) {
    return set(full(name), kBool, GgufBytes::pod<uint8_t>(value ? 1 : 0));
  }
  Keys& i32s(const std::string& name, const std::vector<int32_t>& values) { return array(full(name), kI32, values); }
  Keys& f64s(const std::string& name, const std::vector<double>& values) { return array(full(name), kF64, values); }
  Keys& tokens(size_t n) {
    std::string encoded;
    for (size_t i = 0; i < n; ++i) {
      encoded += GgufBytes::str("t" + std::to_string(i));
    }
    return set("tokenizer.ggml.tokens", kArray, GgufBytes::pod(kString) + GgufBytes::pod<uint64_t>(n) + encoded);
  }
  // A tensor of one row per vocabulary entry, or of any name.
  Keys& tensor(const std::string& name, uint64_t rows) {
    tensors_.emplace_back(name, rows);
    return *this;
  }

  [[nodiscard]] ModelConfig read() const {
    GgufBytes bytes;
    for (const Key& key : keys_) {
      bytes.key(key.name, key.type, key.encoded);
    }
    uint64_t offset = 0;
    for (const auto& [name, rows] : tensors_) {
      bytes.tensor(name, {8, rows}, 0, offset);
      offset += rows * 32;
    }
    bytes.data(std::string(offset, '\0'));
    const std::string text = bytes.build();
    return read_gguf_config(GgufFile::parse(as_byte_span(text), "m.gguf"));
  }

 private:
  static std::string full(const std::string& name) { return "deepseek4." + name; }
  template <class T>
  Keys& array(const std::string& name, uint32_t type, const std::vector<T>& values) {
    std::string encoded = GgufBytes::pod(type) + GgufBytes::pod<uint64_t>(values.size());
    for (const T value : values) {
      encoded += GgufBytes::pod(value);
    }
    return set(name, kArray, encoded);
  }

  std::vector<Key> keys_;
  std::vector<std::pair<std::string, uint64_t>> tensors_;
};

void expect_bad(const Keys& keys, std::string_view message) {
  EXPECT_ERROR((void)keys.read(), ErrorCode::kBadModel, message);
}
void expect_unsupported(const Keys& keys, std::string_view message) {
  EXPECT_ERROR((void)keys.read(), ErrorCode::kUnsupported, message);
}

TEST(GgufConfig, ReadsEveryKey) {
  const ModelConfig c = Keys().read();
  EXPECT_EQ(c.name, "Tiny");
  EXPECT_EQ(c.n_layers, 4);
  EXPECT_EQ(c.context_length, 4096);
  EXPECT_EQ(c.hidden, 256);
  EXPECT_EQ(c.vocab, 512);
  EXPECT_EQ(c.n_heads, 8);
  EXPECT_EQ(c.head_dim, 128);
  EXPECT_EQ(c.rope_dim, 64);
  EXPECT_EQ(c.q_lora_rank, 96);
  EXPECT_EQ(c.o_lora_rank, 48);
  EXPECT_EQ(c.o_groups, 2);
  EXPECT_EQ(c.window, 32);
  EXPECT_EQ(c.compress_ratios, (std::vector<int>{0, 4, 128, 4}));
  EXPECT_EQ(c.index_heads, 4);
  EXPECT_EQ(c.index_dim, 72);
  EXPECT_EQ(c.index_topk, 16);
  EXPECT_EQ(c.rope_theta, 5000.0F);
  EXPECT_EQ(c.compress_rope_theta, 40000.0F);
  EXPECT_EQ(c.yarn.factor, 8.0F);
  EXPECT_EQ(c.yarn.original_context, 1024);
  EXPECT_EQ(c.yarn.beta_fast, 24.0F);
  EXPECT_EQ(c.yarn.beta_slow, 2.0F);
  EXPECT_EQ(c.n_experts, 12);
  EXPECT_EQ(c.n_experts_used, 3);
  EXPECT_EQ(c.expert_ffn, 80);
  EXPECT_EQ(c.n_shared_experts, 2);
  EXPECT_EQ(c.n_hash_layers, 1);
  EXPECT_EQ(c.routed_scale, 2.5F);
  EXPECT_EQ(c.swiglu_limit, std::vector<float>(4, 7.0F));
  EXPECT_EQ(c.shared_swiglu_limit, c.swiglu_limit);
  EXPECT_EQ(c.hc, 4);
  EXPECT_EQ(c.sinkhorn_iterations, 7);
  EXPECT_EQ(c.hc_eps, 1e-7F);
  EXPECT_EQ(c.rms_eps, 1e-5F);
}

TEST(GgufConfig, AcceptsTheVariantsOfOtherWriters) {
  const ModelConfig c = Keys()
                            .u64("context_length", 1048576)
                            .u64("rope.scaling.original_context_length", 65536)
                            .i32s("attention.head_count", {8, 8, 8, 8})
                            .i32s("attention.head_count_kv", {1, 1, 1, 1})
                            .i32s("expert_used_count", {3, 3, 3, 3, 0})
                            .i32s("attention.compress_ratios", {0, 4, 128, 4, 0, 0, 0})
                            .f64s("swiglu_clamp_exp", {10.0, 9.0, 8.0, 7.0})
                            .f64s("swiglu_clamp_shexp", {0.0, 1.0, 2.0, 3.0, 4.0})
                            .u32("expert_group_count", 1)
                            .u32("expert_group_used_count", 0)
                            .f32("rope.scaling.attn_factor", 1.0F)
                            .drop("attention.head_count_kv")
                            .drop("attention.value_length")
                            .drop("rope.freq_base")
                            .drop("general.name")
                            .read();
  EXPECT_EQ(c.context_length, 1048576);
  EXPECT_EQ(c.yarn.original_context, 65536);
  EXPECT_EQ(c.n_heads, 8);
  EXPECT_EQ(c.n_experts_used, 3);
  EXPECT_EQ(c.compress_ratios, (std::vector<int>{0, 4, 128, 4}));
  EXPECT_EQ(c.swiglu_limit, (std::vector<float>{10.0F, 9.0F, 8.0F, 7.0F}));
  EXPECT_EQ(c.shared_swiglu_limit, (std::vector<float>{0.0F, 1.0F, 2.0F, 3.0F}));
  EXPECT_EQ(c.rope_theta, 10000.0F);
  EXPECT_EQ(c.name, "");
}

TEST(GgufConfig, CountsOnlyTheMainModelsLayers) {
  Keys keys;
  keys.u32("block_count", 5).u32("nextn_predict_layers", 1).i32s("attention.compress_ratios", {0, 4, 128, 4, 0});
  // The count alone may be left over from the model that the file was made of.
  EXPECT_EQ(keys.read().n_layers, 5);
  EXPECT_EQ(keys.tensor("blk.4.nextn.eh_proj.weight", 1).read().n_layers, 4);
  expect_bad(keys.u32("nextn_predict_layers", 5), "deepseek4.nextn_predict_layers is 5, expected 0 to 4");
}

TEST(GgufConfig, FindsTheVocabulary) {
  EXPECT_EQ(Keys().tokens(512).read().vocab, 512);
  EXPECT_EQ(Keys().tokens(500).read().vocab, 512);
  EXPECT_EQ(Keys().drop("vocab_size").tokens(500).read().vocab, 500);
  EXPECT_EQ(Keys().drop("vocab_size").tensor("token_embd.weight", 480).read().vocab, 480);
  EXPECT_EQ(Keys().drop("vocab_size").tensor("token_embd.weight", 480).tokens(470).read().vocab, 480);
  expect_bad(Keys().tokens(513), "deepseek4.vocab_size is 512, expected at least the tokenizer's 513 tokens");
  expect_bad(Keys().drop("vocab_size"),
             "deepseek4.vocab_size is missing, and 0 rows of token_embd.weight with 0 tokens do not stand for it");
  expect_bad(Keys().drop("vocab_size").tensor("token_embd.weight", 480).tokens(481),
             "480 rows of token_embd.weight with 481 tokens do not stand for it");
}

TEST(GgufConfig, ScalesRotationOnlyWithYarn) {
  Keys none;
  for (const char* key : {"type", "factor", "original_context_length", "yarn_beta_fast", "yarn_beta_slow"}) {
    none.drop(std::string("rope.scaling.") + key);
  }
  EXPECT_EQ(none.read().yarn.factor, 1.0F);
  EXPECT_EQ(none.read().yarn.original_context, 4096);
  EXPECT_EQ(Keys().string("rope.scaling.type", "none").read().yarn.factor, 1.0F);
  const ModelConfig defaults = none.string("rope.scaling.type", "yarn").f32("rope.scaling.factor", 4.0F).read();
  EXPECT_EQ(defaults.yarn.factor, 4.0F);
  EXPECT_EQ(defaults.yarn.original_context, 4096);
  EXPECT_EQ(defaults.yarn.beta_fast, 32.0F);
  EXPECT_EQ(defaults.yarn.beta_slow, 1.0F);
  expect_unsupported(Keys().string("rope.scaling.type", "longrope"),
                     "m.gguf: deepseek4.rope.scaling.type is longrope, expected yarn or none");
  expect_unsupported(Keys().drop("rope.scaling.type"), "deepseek4.rope.scaling.type is linear, expected yarn or none");
  expect_bad(Keys().drop("rope.scaling.factor"), "metadata key deepseek4.rope.scaling.factor is missing");
  expect_unsupported(Keys().f32("rope.scaling.attn_factor", 1.5F),
                     "deepseek4.rope.scaling.attn_factor is 1.5, expected 1");
}

TEST(GgufConfig, NamesTheMissingKey) {
  for (const std::string key : {"block_count",
                                "context_length",
                                "embedding_length",
                                "attention.head_count",
                                "attention.key_length",
                                "rope.dimension_count",
                                "attention.q_lora_rank",
                                "attention.output_lora_rank",
                                "attention.output_group_count",
                                "attention.sliding_window",
                                "attention.compress_ratios",
                                "attention.compress_rope_freq_base",
                                "attention.indexer.head_count",
                                "attention.indexer.key_length",
                                "attention.indexer.top_k",
                                "expert_count",
                                "expert_used_count",
                                "expert_feed_forward_length",
                                "expert_shared_count",
                                "expert_gating_func",
                                "expert_weights_norm",
                                "expert_weights_scale",
                                "hyper_connection.count",
                                "hyper_connection.sinkhorn_iterations",
                                "hyper_connection.epsilon",
                                "hash_layer_count",
                                "attention.layer_norm_rms_epsilon",
                                "swiglu_clamp_exp"}) {
    expect_bad(Keys().drop(key), "m.gguf: metadata key deepseek4." + key + " is missing");
  }
  expect_bad(Keys().drop("general.architecture"), "m.gguf: metadata key general.architecture is missing");
}

TEST(GgufConfig, RefusesValuesOfOtherTypesAndRanges) {
  expect_bad(Keys().string("embedding_length", "256"),
             "m.gguf: deepseek4.embedding_length is string, expected an integer");
  expect_bad(Keys().u32("embedding_length", 0), "deepseek4.embedding_length is 0, expected 1 to 1048576");
  expect_bad(Keys().u32("block_count", 513), "deepseek4.block_count is 513, expected 1 to 512");
  expect_bad(Keys().u32("attention.sliding_window", 65537),
             "deepseek4.attention.sliding_window is 65537, expected 1 to 65536");
  expect_bad(Keys().u32("attention.indexer.top_k", 65537),
             "deepseek4.attention.indexer.top_k is 65537, expected 1 to 65536");
  expect_bad(Keys().u32("vocab_size", 0), "deepseek4.vocab_size is 0, expected 1 to 16777216");
  expect_bad(Keys().f32("attention.layer_norm_rms_epsilon", 0.0F),
             "m.gguf: deepseek4.attention.layer_norm_rms_epsilon is 0, expected a number above 0");
  expect_bad(Keys().f32("rope.freq_base", std::numeric_limits<float>::infinity()),
             "deepseek4.rope.freq_base is inf, expected a number above 0");
  expect_bad(Keys().f32("rope.freq_base", std::numeric_limits<float>::quiet_NaN()),
             "deepseek4.rope.freq_base is nan, expected a number above 0");
  expect_bad(Keys().u32("attention.compress_ratios", 4),
             "deepseek4.attention.compress_ratios is u32, expected an array of integers");
  expect_bad(Keys().i32s("attention.compress_ratios", {0, 4}),
             "deepseek4.attention.compress_ratios has 2 values, expected one, or one for each of the 4 layers");
  expect_bad(Keys().i32s("attention.compress_ratios", {0, 4, -1, 4}),
             "deepseek4.attention.compress_ratios is -1 at index 2, expected 0 to 1048576");
  expect_bad(Keys().f64s("swiglu_clamp_exp", {1.0}), "deepseek4.swiglu_clamp_exp has 1 values, expected one, or");
  expect_bad(Keys().u32("expert_weights_norm", 1), "deepseek4.expert_weights_norm is u32, expected a bool");
}

TEST(GgufConfig, RefusesOtherModelsAndVariants) {
  expect_unsupported(Keys().set("general.architecture", kString, GgufBytes::str("llama")),
                     "m.gguf: general.architecture is llama, expected deepseek4");
  expect_unsupported(Keys().u32("attention.head_count_kv", 8), "deepseek4.attention.head_count_kv is 8, expected 1");
  expect_unsupported(Keys().u32("attention.value_length", 64), "deepseek4.attention.value_length is 64, expected 128");
  expect_unsupported(Keys().u32("expert_gating_func", 2),
                     "deepseek4.expert_gating_func is 2, expected 4 (sqrt of softplus)");
  expect_unsupported(Keys().boolean("expert_weights_norm", false),
                     "deepseek4.expert_weights_norm is false, expected true");
  expect_unsupported(Keys().u32("expert_group_count", 8), "deepseek4.expert_group_count is 8, expected no groups");
  expect_unsupported(Keys().u32("expert_group_used_count", 4), "deepseek4.expert_group_used_count is 4, expected no");
  expect_unsupported(Keys().i32s("attention.head_count", {8, 8, 4, 8}),
                     "deepseek4.attention.head_count is 8 for layer 0 and 4 for layer 2, expected one value");
}

TEST(GgufConfig, RefusesValuesThatContradictEachOther) {
  expect_bad(Keys().u32("rope.dimension_count", 128), "m.gguf: rotary dimensions 128, expected an even number less");
  expect_unsupported(Keys().i32s("attention.compress_ratios", {0, 4, 64, 4}),
                     "m.gguf: compress ratio 64 of layer 2, expected 0, 4 or 128");
  expect_bad(Keys().f64s("swiglu_clamp_shexp", {1.0, -2.0, 1.0, 1.0}),
             "m.gguf: SwiGLU limit -2 of layer 1, expected a number from 0");
}

}  // namespace
}  // namespace fathom
