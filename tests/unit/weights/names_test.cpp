#include "weights/names.h"

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/json_text.h"
#include "support/file_bytes.h"

namespace fathom {
namespace {

std::string data_file(const std::string& fixture, const std::string& file) {
  return std::string(FATHOM_TEST_DATA_DIR) + "/oracle/" + fixture + "/" + file;
}

std::string canonical(std::string_view name) {
  const auto meaning = meaning_of_safetensors_name(name);
  return meaning ? meaning->name : "none";
}

TEST(Names, TranslatesOfficialNames) {
  EXPECT_EQ(canonical("embed.weight"), "token_embd.weight");
  EXPECT_EQ(canonical("head.weight"), "output.weight");
  EXPECT_EQ(canonical("hc_head_scale"), "output_hc_scale.weight");
  EXPECT_EQ(canonical("layers.0.attn.attn_sink"), "blk.0.attn_sinks.weight");
  EXPECT_EQ(canonical("layers.42.attn.wo_a.weight"), "blk.42.attn_output_a.weight");
  EXPECT_EQ(canonical("layers.7.ffn.gate.bias"), "blk.7.exp_probs_b.bias");
  EXPECT_EQ(canonical("layers.7.ffn.shared_experts.w2.weight"), "blk.7.ffn_down_shexp.weight");
  EXPECT_EQ(canonical("layers.7.attn.indexer.compressor.ape"), "blk.7.indexer_compressor_ape.weight");
  EXPECT_EQ(canonical("layers.7.attn.indexer.wq_b.weight"), "blk.7.indexer.attn_q_b.weight");
}

TEST(Names, TellsExpertsApart) {
  const auto gate = meaning_of_safetensors_name("layers.3.ffn.experts.255.w1.weight");
  ASSERT_TRUE(gate.has_value());
  EXPECT_EQ(gate->content, TensorContent::kExpert);
  EXPECT_EQ(gate->name, "blk.3.ffn_gate_exps.weight");
  EXPECT_EQ(gate->expert, 255);
  EXPECT_EQ(canonical("layers.3.ffn.experts.0.w3.weight"), "blk.3.ffn_up_exps.weight");
  EXPECT_EQ(canonical("layers.3.ffn.experts.0.w2.weight"), "blk.3.ffn_down_exps.weight");

  const auto both = meaning_of_safetensors_name("model.layers.3.mlp.experts.gate_up_proj");
  ASSERT_TRUE(both.has_value());
  EXPECT_EQ(both->content, TensorContent::kGateUpExperts);
  EXPECT_EQ(both->name, "blk.3.ffn_gate_exps.weight");
  EXPECT_EQ(both->up_name, "blk.3.ffn_up_exps.weight");
  EXPECT_EQ(meaning_of_safetensors_name("model.layers.3.mlp.experts.down_proj")->content, TensorContent::kExperts);
}

// names.json of a fixture pairs the two spellings of every tensor of a model.
void expect_same_meaning(const std::string& port, const std::string& official) {
  const auto a = meaning_of_safetensors_name(port);
  const auto b = meaning_of_safetensors_name(official);
  ASSERT_TRUE(a.has_value()) << port;
  ASSERT_TRUE(b.has_value()) << official;
  EXPECT_EQ(a->content, TensorContent::kWhole) << port;
  EXPECT_EQ(b->content, TensorContent::kWhole) << official;
  EXPECT_EQ(a->name, b->name) << port << " and " << official;
}

void expect_experts(const std::string& port, const nlohmann::json& experts) {
  const auto stack = meaning_of_safetensors_name(port);
  ASSERT_TRUE(stack.has_value()) << port;
  for (size_t e = 0; e < experts.size(); ++e) {
    const bool is_pair = experts[e].is_array();
    EXPECT_EQ(stack->content, is_pair ? TensorContent::kGateUpExperts : TensorContent::kExperts) << port;
    const auto first = meaning_of_safetensors_name((is_pair ? experts[e][0] : experts[e]).get<std::string>());
    ASSERT_TRUE(first.has_value()) << port;
    EXPECT_EQ(first->name, stack->name);
    EXPECT_EQ(first->expert, static_cast<int>(e));
    if (is_pair) {
      const auto second = meaning_of_safetensors_name(experts[e][1].get<std::string>());
      ASSERT_TRUE(second.has_value()) << port;
      EXPECT_EQ(second->name, stack->up_name);
      EXPECT_EQ(second->expert, static_cast<int>(e));
    }
  }
}

TEST(Names, SpellingsOfTheFixturesAgree) {
  for (const std::string fixture : {"mini", "flash", "k256"}) {
    const std::string path = data_file(fixture, "names.json");
    const auto names = parse_json(test::read_file_bytes(path), path);
    ASSERT_GT(names.size(), 50U) << fixture;
    for (const auto& [port, official] : names.items()) {
      if (official.is_string()) {
        expect_same_meaning(port, official.get<std::string>());
      } else {
        expect_experts(port, official);
      }
    }
  }
}

TEST(Names, KnowsNoOtherNames) {
  for (const std::string_view name : {"",
                                      "embed",
                                      "model.embed.weight",
                                      "layers.0",
                                      "layers.0.",
                                      "layers..attn_norm.weight",
                                      "layers.00.attn_norm.weight",
                                      "layers.-1.attn_norm.weight",
                                      "layers.+1.attn_norm.weight",
                                      "layers.1x.attn_norm.weight",
                                      "layers.1234567.attn_norm.weight",
                                      "layers.0.input_layernorm.weight",
                                      "model.layers.0.attn_norm.weight",
                                      "layers.0.attn.wq_a.scale",
                                      "layers.0.ffn.experts.w1.weight",
                                      "layers.0.ffn.experts.01.w1.weight",
                                      "layers.0.ffn.experts.0.w4.weight",
                                      "layers.0.mlp.experts.down_proj",
                                      "mtp.0.attn_norm.weight",
                                      "blk.0.attn_norm.weight",
                                      "token_embd.weight"}) {
    EXPECT_FALSE(meaning_of_safetensors_name(name).has_value()) << name;
  }
}

TEST(Names, PairsScalesWithWeights) {
  const auto names = scale_names("layers.0.attn.wq_a.weight");
  EXPECT_EQ(names[0], "layers.0.attn.wq_a.scale");
  EXPECT_EQ(names[1], "layers.0.attn.wq_a.weight_scale_inv");
  for (const std::string& name : names) {
    EXPECT_TRUE(is_scale_name(name));
    EXPECT_EQ(scaled_tensor_names(name)[name.ends_with(".scale") ? 0 : 1], "layers.0.attn.wq_a.weight");
  }
  EXPECT_FALSE(is_scale_name("layers.0.attn.wq_a.weight"));
  EXPECT_FALSE(is_scale_name("hc_head_scale"));
}

TEST(Names, KnowsSideTensors) {
  for (const std::string_view name :
       {"mtp.0.e_proj.weight", "mtp.2.markov_head.markov_w1.weight", "blk.5.nextn.eh_proj.weight",
        "blk.43.attn_norm.weight", "rope_freqs.weight", "blk.3.rope_freqs.weight", "blk.3.exp_probs_b_vl.bias",
        "layers.3.ffn.gate.bias_vl", "model.rotary_emb.inv_freq"}) {
    EXPECT_TRUE(is_side_tensor(name, 43)) << name;
  }
  for (const std::string_view name : {"token_embd.weight", "blk.42.attn_norm.weight", "blk.x.nextn.enorm.weight",
                                      "blk.5.ffn_other.weight", "mtp", "layers.3.ffn.gate.other", ""}) {
    EXPECT_FALSE(is_side_tensor(name, 43)) << name;
  }
}

}  // namespace
}  // namespace fathom
