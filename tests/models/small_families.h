// The families of decoders with small settings in which their features show, for tests that go over all families.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "models/families.h"
#include "models/zoo.h"

namespace genesis::testing {

// Returns the names of the families that make_decoder() makes.
inline std::vector<std::string> decoder_families() {
  std::vector<std::string> names;
  for (const models::Family& family : models::families())
    if (family.hugging_face && family.network.settings.contains("num_key_value_heads"))
      names.push_back(family.name);
  return names;
}

// Returns settings of two layers, of which the first has a window of 5 tokens, with what only this family has.
inline models::Settings small_settings(const std::string& family) {
  models::Settings settings = {{"vocab_size", "61"},
                               {"hidden_size", "32"},
                               {"intermediate_size", "64"},
                               {"num_hidden_layers", "2"},
                               {"num_attention_heads", "4"},
                               {"num_key_value_heads", "2"},
                               {"max_position_embeddings", "32"},
                               {"sliding_window", "5"},
                               {"layer_types", "sliding_attention,full_attention"}};
  static const std::map<std::string, models::Settings> own = {
      {"bamba",
       {{"layer_types", "linear_attention,full_attention"},
        {"mamba_n_heads", "4"},
        {"mamba_d_head", "16"},
        {"mamba_n_groups", "2"},
        {"mamba_d_state", "8"}}},
      {"cohere", {{"use_qk_norm", "true"}, {"logit_scale", "0.5"}}},
      {"deepseek_v2",
       {{"num_experts", "4"},
        {"moe_intermediate_size", "32"},
        {"num_key_value_heads", "4"},
        {"limits_groups", "true"},
        {"n_group", "2"},
        {"topk_group", "1"},
        {"q_lora_rank", "0"},
        {"kv_lora_rank", "32"},
        {"qk_nope_head_dim", "8"},
        {"qk_rope_head_dim", "4"},
        {"v_head_dim", "8"}}},
      {"deepseek_v3",
       {{"num_experts", "4"},
        {"moe_intermediate_size", "32"},
        {"num_key_value_heads", "4"},
        {"q_lora_rank", "32"},
        {"kv_lora_rank", "32"},
        {"qk_nope_head_dim", "8"},
        {"qk_rope_head_dim", "4"},
        {"v_head_dim", "8"}}},
      {"ernie4_5", {{"use_bias", "true"}}},
      {"falcon_h1",
       {{"layer_types", ""},
        {"ssm_multipliers", "1,0.5,2,1,1"},
        {"mlp_multipliers", "2,0.5"},
        {"mamba_n_heads", "4"},
        {"mamba_d_head", "16"},
        {"mamba_n_groups", "2"},
        {"mamba_d_state", "8"}}},
      {"gemma2", {{"attn_logit_softcapping", "1"}, {"final_logit_softcapping", "2"}}},
      {"gemma3", {{"final_logit_softcapping", "2"}, {"rope_local_base_freq", "50"}}},
      {"gemma4",
       {{"layer_types", "full_attention,full_attention"},
        {"num_kv_shared_layers", "1"},
        {"use_double_wide_mlp", "true"},
        {"head_dim", "4"},
        {"global_head_dim", "8"},
        {"hidden_size_per_layer_input", "32"},
        {"num_experts", "4"},
        {"num_experts_per_tok", "4"},
        {"moe_intermediate_size", "32"},
        {"rope_local_base_freq", "50"}}},
      {"glm4_moe",
       {{"num_experts", "4"},
        {"moe_intermediate_size", "32"},
        {"n_group", "2"},
        {"use_qk_norm", "true"},
        {"routed_scaling_factor", "2"}}},
      {"gpt_oss", {{"num_experts", "4"}, {"swiglu_limit", "0.5"}}},
      {"granite", {{"embedding_multiplier", "3"}, {"residual_multiplier", "0.5"}, {"logits_scaling", "2"}}},
      {"granitemoehybrid",
       {{"layer_types", "linear_attention,full_attention"},
        {"num_experts", "4"},
        {"shared_intermediate_size", "32"},
        {"embedding_multiplier", "3"},
        {"residual_multiplier", "0.5"},
        {"mamba_n_heads", "4"},
        {"mamba_d_head", "16"},
        {"mamba_n_groups", "2"},
        {"mamba_d_state", "8"}}},
      {"lfm2", {{"layer_types", "conv,full_attention"}, {"conv_bias", "true"}}},
      {"ministral3",
       {{"rope_scaling", "yarn"},
        {"rope_factor", "4"},
        {"rope_original_positions", "8"},
        {"llama_4_scaling_beta", "0.5"}}},
      {"minimax_m2", {{"num_experts", "4"}, {"partial_rotary_factor", "0.5"}}},
      {"mixtral", {{"num_experts", "4"}}},
      {"nemotron_h",
       {{"num_hidden_layers", "4"},
        {"layer_types", "linear_attention,moe,full_attention,mlp"},
        {"num_experts", "4"},
        {"moe_intermediate_size", "32"},
        {"moe_shared_expert_intermediate_size", "32"},
        {"mamba_n_heads", "4"},
        {"mamba_d_head", "16"},
        {"mamba_n_groups", "2"},
        {"mamba_d_state", "8"}}},
      {"olmo", {{"clip_qkv", "0.3"}}},
      {"olmo3", {{"rope_local_base_freq", "50"}}},
      {"olmoe", {{"num_experts", "4"}}},
      {"phi3", {{"partial_rotary_factor", "0.5"}}},
      {"qwen2_moe",
       {{"num_experts", "4"}, {"moe_intermediate_size", "32"}, {"shared_expert_intermediate_size", "32"}}},
      {"qwen3_moe", {{"num_experts", "4"}, {"moe_intermediate_size", "32"}, {"norm_topk_prob", "true"}}},
      {"qwen3_5", {{"intermediate_size", "128"}, {"layer_types", "linear_attention,full_attention"}}},
      {"qwen3_5_moe",
       {{"num_experts", "4"},
        {"moe_intermediate_size", "32"},
        {"shared_expert_intermediate_size", "32"},
        {"layer_types", "linear_attention,full_attention"}}},
      {"qwen3_next",
       {{"num_experts", "4"},
        {"moe_intermediate_size", "32"},
        {"shared_expert_intermediate_size", "32"},
        {"layer_types", "linear_attention,full_attention"}}},
      {"seed_oss", {{"attention_out_bias", "true"}, {"mlp_bias", "true"}}},
      {"smollm3", {{"no_rope_layers", "1,0"}}},
      {"stablelm", {{"use_qkv_bias", "true"}, {"use_parallel_residual", "true"}}}};
  if (const auto found = own.find(family); found != own.end())
    for (const auto& [name, value] : found->second) settings[name] = value;
  return settings;
}

}  // namespace genesis::testing
