#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "model/config_reader.h"
#include "support/expect_error.h"
#include "support/file_bytes.h"

namespace fathom {
namespace {

using Json = nlohmann::ordered_json;

// DeepSeek-V4-Flash.
Json official_flash() {
  Json config = Json::parse(R"({
    "architectures": ["DeepseekV4ForCausalLM"], "model_type": "deepseek_v4", "vocab_size": 129280,
    "hidden_size": 4096, "num_hidden_layers": 43, "num_attention_heads": 64, "num_key_value_heads": 1,
    "head_dim": 512, "qk_rope_head_dim": 64, "q_lora_rank": 1024, "o_lora_rank": 1024, "o_groups": 8,
    "sliding_window": 128, "index_n_heads": 64, "index_head_dim": 128, "index_topk": 512,
    "n_routed_experts": 256, "n_shared_experts": 1, "num_experts_per_tok": 6, "moe_intermediate_size": 2048,
    "scoring_func": "sqrtsoftplus", "topk_method": "noaux_tc", "norm_topk_prob": true,
    "routed_scaling_factor": 1.5, "num_hash_layers": 3, "swiglu_limit": 10.0, "hc_mult": 4,
    "hc_sinkhorn_iters": 20, "hc_eps": 1e-6, "rms_norm_eps": 1e-6, "rope_theta": 10000,
    "compress_rope_theta": 160000,
    "rope_scaling": {"type": "yarn", "factor": 16, "beta_fast": 32, "beta_slow": 1,
                     "original_max_position_embeddings": 65536},
    "max_position_embeddings": 1048576, "num_nextn_predict_layers": 1, "tie_word_embeddings": false,
    "hidden_act": "silu", "attention_bias": false, "attention_dropout": 0.0, "torch_dtype": "bfloat16",
    "expert_dtype": "fp4"})");
  Json& ratios = config["compress_ratios"] = {0, 0};
  for (int layer = 2; layer < 43; ++layer) {
    ratios.push_back(layer % 2 == 0 ? 4 : 128);
  }
  ratios.push_back(0);  // of the prediction layer
  return config;
}

// The same in the spelling of the official inference code.
Json inference_flash() {
  const Json official = official_flash();
  Json config = Json::parse(R"({
    "vocab_size": 129280, "dim": 4096, "moe_inter_dim": 2048, "n_layers": 43, "n_hash_layers": 3, "n_heads": 64,
    "n_routed_experts": 256, "n_shared_experts": 1, "n_activated_experts": 6, "score_func": "sqrtsoftplus",
    "route_scale": 1.5, "swiglu_limit": 10.0, "q_lora_rank": 1024, "head_dim": 512, "rope_head_dim": 64,
    "o_groups": 8, "o_lora_rank": 1024, "window_size": 128, "original_seq_len": 65536, "rope_theta": 10000,
    "rope_factor": 16, "beta_fast": 32, "beta_slow": 1, "index_n_heads": 64, "index_head_dim": 128,
    "index_topk": 512, "hc_mult": 4, "hc_sinkhorn_iters": 20, "dtype": "fp8", "scale_fmt": "ue8m0",
    "expert_dtype": "fp4", "compress_rope_theta": 160000, "n_mtp_layers": 3})");
  config["compress_ratios"] = official["compress_ratios"];
  return config;
}

ModelConfig read(const Json& config) { return read_json_config(config.dump(), "config.json"); }

// `patch` is merged into the config (null removes a key).
void expect_error(Json config, const std::string& patch, ErrorCode code, std::string_view message) {
  config.merge_patch(Json::parse(patch));
  EXPECT_ERROR((void)read(config), code, message);
}
void expect_bad(const std::string& patch, std::string_view message) {
  expect_error(official_flash(), patch, ErrorCode::kBadModel, message);
}
void expect_unsupported(const std::string& patch, std::string_view message) {
  expect_error(official_flash(), patch, ErrorCode::kUnsupported, message);
}

void expect_flash(const ModelConfig& c) {
  EXPECT_EQ(c.n_layers, 43);
  EXPECT_EQ(c.hidden, 4096);
  EXPECT_EQ(c.vocab, 129280);
  EXPECT_EQ(c.context_length, 1048576);
  EXPECT_EQ(c.n_heads, 64);
  EXPECT_EQ(c.head_dim, 512);
  EXPECT_EQ(c.rope_dim, 64);
  EXPECT_EQ(c.q_lora_rank, 1024);
  EXPECT_EQ(c.o_lora_rank, 1024);
  EXPECT_EQ(c.o_groups, 8);
  EXPECT_EQ(c.window, 128);
  ASSERT_EQ(c.compress_ratios.size(), 43U);
  EXPECT_EQ(c.ratio(0), 0);
  EXPECT_EQ(c.ratio(1), 0);
  EXPECT_EQ(c.ratio(2), 4);
  EXPECT_EQ(c.ratio(41), 128);
  EXPECT_EQ(c.ratio(42), 4);
  EXPECT_EQ(c.index_heads, 64);
  EXPECT_EQ(c.index_dim, 128);
  EXPECT_EQ(c.index_topk, 512);
  EXPECT_EQ(c.rope_theta, 10000.0F);
  EXPECT_EQ(c.compress_rope_theta, 160000.0F);
  EXPECT_EQ(c.yarn.factor, 16.0F);
  EXPECT_EQ(c.yarn.original_context, 65536);
  EXPECT_EQ(c.yarn.beta_fast, 32.0F);
  EXPECT_EQ(c.yarn.beta_slow, 1.0F);
  EXPECT_EQ(c.n_experts, 256);
  EXPECT_EQ(c.n_experts_used, 6);
  EXPECT_EQ(c.expert_ffn, 2048);
  EXPECT_EQ(c.n_shared_experts, 1);
  EXPECT_EQ(c.n_hash_layers, 3);
  EXPECT_EQ(c.routed_scale, 1.5F);
  EXPECT_EQ(c.swiglu_limit, std::vector<float>(43, 10.0F));
  EXPECT_EQ(c.shared_swiglu_limit, std::vector<float>(43, 10.0F));
  EXPECT_EQ(c.hc, 4);
  EXPECT_EQ(c.sinkhorn_iterations, 20);
  EXPECT_EQ(c.hc_eps, 1e-6F);
  EXPECT_EQ(c.rms_eps, 1e-6F);
}

TEST(JsonConfig, ReadsTheOfficialSpelling) { expect_flash(read(official_flash())); }

TEST(JsonConfig, ReadsTheInferenceCodesSpelling) { expect_flash(read(inference_flash())); }

TEST(JsonConfig, ReadsThePortsSpelling) {
  Json config = official_flash();
  config.merge_patch(Json::parse(R"({
    "compress_ratios": null, "num_hash_layers": null, "rope_scaling": null, "qk_rope_head_dim": null,
    "partial_rotary_factor": 0.125,
    "compress_rates": {"compressed_sparse_attention": 4, "heavily_compressed_attention": 128},
    "rope_parameters": {
      "main": {"rope_type": "default", "rope_theta": 10000.0},
      "compress": {"rope_type": "yarn", "rope_theta": 160000.0, "attention_factor": 1.0, "factor": 16.0,
                   "original_max_position_embeddings": 65536, "beta_fast": 32.0, "beta_slow": 1.0}}})"));
  for (int layer = 0; layer < 43; ++layer) {
    config["layer_types"].push_back(layer < 2        ? "sliding_attention"
                                    : layer % 2 == 0 ? "compressed_sparse_attention"
                                                     : "heavily_compressed_attention");
    config["mlp_layer_types"].push_back(layer < 3 ? "hash_moe" : "moe");
  }
  expect_flash(read(config));
}

TEST(JsonConfig, AbsentEpsilonsAreTheOfficialOnes) {
  Json config = official_flash();
  config.erase("hc_eps");
  config["rms_norm_eps"] = nullptr;
  expect_flash(read(config));
  config["rms_norm_eps"] = 1e-5;
  EXPECT_EQ(read(config).rms_eps, 1e-5F);
}

TEST(JsonConfig, BothSpellingsOfTheFixturesAgree) {
  for (const std::string name : {"mini", "flash", "k256"}) {
    const std::string dir = std::string(FATHOM_TEST_DATA_DIR) + "/oracle/" + name;
    const ModelConfig a = read_json_config(test::read_file_bytes(dir + "/config.json"), "config.json");
    const ModelConfig b =
        read_json_config(test::read_file_bytes(dir + "/config_official.json"), "config_official.json");
    for (const auto member : {&ModelConfig::n_layers,    &ModelConfig::hidden,
                              &ModelConfig::vocab,       &ModelConfig::context_length,
                              &ModelConfig::n_heads,     &ModelConfig::head_dim,
                              &ModelConfig::rope_dim,    &ModelConfig::q_lora_rank,
                              &ModelConfig::o_lora_rank, &ModelConfig::o_groups,
                              &ModelConfig::window,      &ModelConfig::index_heads,
                              &ModelConfig::index_dim,   &ModelConfig::index_topk,
                              &ModelConfig::n_experts,   &ModelConfig::n_experts_used,
                              &ModelConfig::expert_ffn,  &ModelConfig::n_hash_layers,
                              &ModelConfig::hc,          &ModelConfig::sinkhorn_iterations}) {
      EXPECT_EQ(a.*member, b.*member) << name;
    }
    EXPECT_EQ(a.compress_ratios, b.compress_ratios) << name;
    EXPECT_EQ(a.swiglu_limit, b.swiglu_limit) << name;
    EXPECT_EQ(a.yarn.original_context, b.yarn.original_context) << name;
    EXPECT_EQ(a.yarn.factor, b.yarn.factor) << name;
  }
}

TEST(JsonConfig, ValuesOfMini) {
  const std::string path = std::string(FATHOM_TEST_DATA_DIR) + "/oracle/mini/config.json";
  const ModelConfig c = read_json_config(test::read_file_bytes(path), path);
  EXPECT_EQ(c.compress_ratios, (std::vector<int>{0, 4, 128, 4, 128}));
  EXPECT_EQ(c.n_hash_layers, 2);
  EXPECT_EQ(c.rope_dim, 8);
  EXPECT_EQ(c.window, 16);
  EXPECT_EQ(c.yarn.original_context, 64);
  EXPECT_EQ(c.swiglu_limit, std::vector<float>(5, 1.5F));
  EXPECT_EQ(c.vocab, 256);
}

TEST(JsonConfig, RefusesTextThatIsNoConfig) {
  EXPECT_ERROR((void)read_json_config("{", "config.json"), ErrorCode::kBadModel, "config.json: not valid JSON: ");
  EXPECT_ERROR((void)read_json_config("[]", "config.json"), ErrorCode::kBadModel, "config.json: not a JSON object");
  EXPECT_ERROR((void)read_json_config(std::string((16 << 20) + 1, ' '), "config.json"), ErrorCode::kBadModel,
               "config.json: 16777217 bytes, expected at most 16777216");
  EXPECT_ERROR((void)read_json_config("{}", "config.json"), ErrorCode::kBadModel,
               "config.json: num_hidden_layers is missing");
}

TEST(JsonConfig, NamesTheMissingKey) {
  for (const char* key : {"hidden_size",
                          "num_attention_heads",
                          "head_dim",
                          "q_lora_rank",
                          "o_lora_rank",
                          "o_groups",
                          "sliding_window",
                          "index_n_heads",
                          "index_head_dim",
                          "index_topk",
                          "n_routed_experts",
                          "num_experts_per_tok",
                          "moe_intermediate_size",
                          "n_shared_experts",
                          "hc_mult",
                          "hc_sinkhorn_iters",
                          "vocab_size",
                          "rope_theta",
                          "compress_rope_theta",
                          "routed_scaling_factor",
                          "swiglu_limit"}) {
    expect_bad(std::string("{\"") + key + "\": null}", std::string("config.json: ") + key + " is missing");
  }
  expect_bad(R"({"compress_ratios": null})", "compress_ratios is missing, and so is layer_types");
  expect_bad(R"({"num_hash_layers": null})", "num_hash_layers is missing, and so is mlp_layer_types");
  expect_bad(R"({"qk_rope_head_dim": null})", "qk_rope_head_dim is missing, and so is partial_rotary_factor");
  expect_bad(R"({"rope_scaling": null})", "rope_factor is missing");
  expect_bad(R"({"rope_scaling": {"factor": null}})", "rope_scaling.factor is missing");
}

TEST(JsonConfig, RefusesValuesOfOtherTypesAndRanges) {
  expect_bad(R"({"hidden_size": "4096"})",
             "config.json: hidden_size is \"4096\", expected an integer from 1 to 1048576");
  expect_bad(R"({"hidden_size": 4096.0})", "hidden_size is 4096.0, expected an integer from 1");
  expect_bad(R"({"hidden_size": true})", "hidden_size is true, expected an integer from 1");
  expect_bad(R"({"hidden_size": 0})", "hidden_size is 0, expected an integer from 1");
  expect_bad(R"({"hidden_size": -1})", "hidden_size is -1, expected an integer from 1");
  expect_bad(R"({"hidden_size": 18446744073709551615})", "hidden_size is 18446744073709551615, expected an integer");
  expect_bad(R"({"num_hidden_layers": 513})", "num_hidden_layers is 513, expected an integer from 1 to 512");
  expect_bad(R"({"rope_theta": "x"})", "rope_theta is \"x\", expected a number");
  expect_bad(R"({"rope_theta": 0})", "rope_theta is 0, expected a number above 0");
  expect_bad(R"({"rms_norm_eps": 1e-60})", "rms_norm_eps is 1e-60, expected a number above 0");
  expect_bad(R"({"rms_norm_eps": 1e60})", "rms_norm_eps is 1e+60, expected a number");
  expect_bad(R"({"swiglu_limit": [10]})", "swiglu_limit is [10], expected a number");
  expect_bad(R"({"compress_ratios": 4})", "compress_ratios is 4, expected an array");
  expect_bad(R"({"compress_ratios": [0, 4]})",
             "compress_ratios has 2 elements, expected one for each of the 43 layers");
  expect_bad(R"({"num_hidden_layers": 2, "compress_ratios": [0, "4"]})",
             "compress_ratios[1] is \"4\", expected an integer from 0");
  expect_bad(R"({"rope_scaling": 5})", "rope_scaling is 5, expected an object");
  expect_bad(R"({"rope_scaling": {"type": 5}})", "rope_scaling.type is 5, expected a string");
}

TEST(JsonConfig, RefusesSpellingsThatDisagree) {
  expect_bad(R"({"dim": 4095})", "config.json: dim is 4095, expected 4096 as in hidden_size");
  Json both = official_flash();
  both["dim"] = 4096;
  EXPECT_EQ(read(both).hidden, 4096);
  expect_bad(R"({"partial_rotary_factor": 0.25})", "partial_rotary_factor gives 128 rotary dimensions, expected 64");
  expect_bad(R"({"qk_rope_head_dim": null, "partial_rotary_factor": 0.3})", "partial_rotary_factor gives 153.6");
  Json kinds = official_flash();
  for (int layer = 0; layer < 43; ++layer) {
    kinds["layer_types"].push_back("sliding_attention");
    kinds["mlp_layer_types"].push_back(layer < 4 ? "hash_moe" : "moe");
  }
  expect_error(kinds, "{}", ErrorCode::kBadModel, "config.json: layer_types contradicts compress_ratios");
  expect_error(kinds, R"({"layer_types": null})", ErrorCode::kBadModel,
               "num_hash_layers is 3, expected the 4 of mlp_layer_types");
}

TEST(JsonConfig, RefusesUnknownKindsOfLayers) {
  Json config = official_flash();
  config.erase("compress_ratios");
  config["num_hidden_layers"] = 3;
  config["layer_types"] = {"sliding_attention", "full_attention", "sliding_attention"};
  expect_error(config, "{}", ErrorCode::kUnsupported, "layer_types has full_attention, expected sliding_attention,");
  expect_error(config, R"({"layer_types": ["sliding_attention", 7, 7]})", ErrorCode::kBadModel,
               "layer_types[1] is 7, expected a string");
  config["layer_types"] = {"sliding_attention", "compressed_sparse_attention", "sliding_attention"};
  expect_error(config, R"({"compress_rates": {"compressed_sparse_attention": 8}})", ErrorCode::kUnsupported,
               "compress_rates.compressed_sparse_attention is 8, expected 4");
  expect_error(config, R"({"mlp_layer_types": ["moe", "hash_moe", "moe"]})", ErrorCode::kUnsupported,
               "mlp_layer_types[1] is hash_moe, expected hash_moe in the first layers and moe in the others");
  expect_error(config, R"({"mlp_layer_types": ["moe", "dense", "moe"]})", ErrorCode::kUnsupported,
               "mlp_layer_types[1] is dense, expected hash_moe");
}

TEST(JsonConfig, RefusesOtherModelsAndVariants) {
  expect_unsupported(R"({"model_type": "deepseek_v41"})",
                     "config.json: model_type is \"deepseek_v41\", expected \"deepseek_v4\"");
  expect_unsupported(R"({"scoring_func": "sigmoid"})", "scoring_func is \"sigmoid\", expected \"sqrtsoftplus\"");
  expect_unsupported(R"({"topk_method": "greedy"})", "topk_method is \"greedy\", expected \"noaux_tc\"");
  expect_unsupported(R"({"hidden_act": "gelu"})", "hidden_act is \"gelu\", expected \"silu\"");
  expect_unsupported(R"({"norm_topk_prob": false})", "norm_topk_prob is false, expected true");
  expect_unsupported(R"({"attention_bias": true})", "attention_bias is true, expected false");
  expect_unsupported(R"({"mlp_bias": true})", "mlp_bias is true, expected false");
  expect_unsupported(R"({"tie_word_embeddings": true})", "tie_word_embeddings is true, expected false");
  expect_unsupported(R"({"num_key_value_heads": 8})", "num_key_value_heads is 8, expected 1");
  expect_unsupported(R"({"n_group": 8})", "n_group is 8, expected 1");
  expect_unsupported(R"({"topk_group": 4})", "topk_group is 4, expected 1");
  expect_unsupported(R"({"rope_scaling": {"type": "linear"}})", "rotary scaling is linear, expected yarn");
  expect_unsupported(R"({"rope_scaling": {"attention_factor": 1.3}})",
                     "rope_scaling.attention_factor is 1.3, expected 1");
  expect_unsupported(R"({"rope_scaling": {"mscale": 0.5}})", "rope_scaling.mscale is 0.5, expected 1");
  expect_unsupported(R"({"rope_scaling": {"mscale_all_dim": 0.5}})", "rope_scaling.mscale_all_dim is 0.5, expected 1");
  expect_unsupported(R"({"rope_scaling": {"truncate": false}})", "rope_scaling.truncate is false, expected true");
  const std::string port = R"("rope_parameters": {"main": {"rope_type": "default", "rope_theta": 10000.0},
      "compress": {"rope_type": "yarn", "rope_theta": 160000.0, "factor": 16.0,
                   "original_max_position_embeddings": 65536, "beta_fast": 32.0, "beta_slow": 1.0}})";
  expect_unsupported("{" + port + R"(, "rope_theta": 5000.0})",
                     "rope_parameters.main.rope_theta is 10000.0, expected 5000");
  expect_unsupported("{" + port + R"(, "compress_rope_theta": 5000.0})",
                     "rope_parameters.compress.rope_theta is 160000.0, expected 5000");
  expect_unsupported(R"({"rope_parameters": {"main": {"rope_type": "linear"}}})",
                     "rope_parameters.main.rope_type is \"linear\", expected \"default\"");
}

TEST(JsonConfig, RefusesValuesThatContradictEachOther) {
  expect_bad(R"({"qk_rope_head_dim": 63})",
             "config.json: rotary dimensions 63, expected an even number less than the head's 512");
  expect_bad(R"({"qk_rope_head_dim": 512})", "rotary dimensions 512, expected an even number less than");
  expect_bad(R"({"index_head_dim": 32})", "rotary dimensions 64, expected at most the indexer head's 32");
  expect_bad(R"({"o_groups": 7})", "7 output groups, expected a divisor of heads * head dimension = 64 * 512");
  expect_bad(R"({"num_attention_heads": 1048576, "head_dim": 1048576})",
             "width of all heads is 1048576 * 1048576 = 1099511627776, expected at most 2147483647");
  expect_bad(R"({"index_n_heads": 1048576, "index_head_dim": 1048576})", "width of all indexer heads is");
  expect_bad(R"({"o_groups": 1048576, "o_lora_rank": 1048576})", "width of all output groups is");
  expect_bad(R"({"n_shared_experts": 65536, "moe_intermediate_size": 1048576})", "width of the shared experts is");
  expect_bad(R"({"num_experts_per_tok": 257})", "257 experts per token, expected at most the 256 there are");
  expect_bad(R"({"num_hash_layers": 44})", "44 hash layers, expected at most the 43 there are");
  expect_bad(R"({"swiglu_limit": -1})", "SwiGLU limit -1 of layer 0, expected a number from 0");
  expect_bad(R"({"rope_theta": 1})", "rotary bases 1 and 160000, expected numbers above 1");
  expect_bad(R"({"rope_scaling": {"factor": 0.5}})", "YaRN factor 0.5, expected at least 1");
  expect_bad(R"({"rope_scaling": {"beta_fast": 0.5}})", "YaRN beta_fast 0.5, expected at least beta_slow 1");
  Json ratio = official_flash();
  ratio["compress_ratios"][7] = 16;
  expect_error(ratio, "{}", ErrorCode::kUnsupported, "compress ratio 16 of layer 7, expected 0, 4 or 128");
  expect_error(inference_flash(), R"({"rope_factor": 1e9})", ErrorCode::kBadModel,
               "rope_factor * original_seq_len is 65536000000000, expected at most 2147483647");
}

}  // namespace
}  // namespace fathom
