// Qwen1.5-MoE and Qwen2-MoE: "Qwen2 technical report" (2024). All tokens use one more expert, scaled by a gate of its own.
#include "models/families/decoder/mixture_config.h"

namespace genesis::models {
namespace {

struct Qwen2MoeConfig : MixtureConfig, SparseLayers {
  int64_t shared_expert_intermediate_size = 256;
  bool norm_topk_prob = false;  // the factors of a token's experts add up to 1
  bool qkv_bias = true;

  static void fields(auto& self, auto&& visit) {
    MixtureConfig::fields(self, visit);
    SparseLayers::fields(self, visit);
    visit("shared_expert_intermediate_size", self.shared_expert_intermediate_size);
    visit("norm_topk_prob", self.norm_topk_prob);
    visit("qkv_bias", self.qkv_bias);
  }
};

std::unique_ptr<Model> make_qwen2_moe(const std::string& family, const Qwen2MoeConfig& c, uint64_t seed) {
  ExpertsDesign experts = c.experts(family);
  experts.normalized = c.norm_topk_prob;
  experts.shared_size = c.shared_expert_intermediate_size;
  experts.shared_gate = "shared_expert_gate";
  const auto design_of = [&](int64_t layer) {
    return LayerDesign{.qkv_biases = c.qkv_bias,
                       .window = c.window_of(layer),
                       .experts = c.has_experts(layer) ? experts : ExpertsDesign{}};
  };
  return make_decoder(family, c, design_of, seed);
}

std::map<std::string, std::string> gguf_layers() {
  std::map<std::string, std::string> layers = gguf_experts();
  layers.emplace("ffn_gate_inp_shexp", "mlp.shared_expert_gate");
  return layers;
}

}  // namespace

Family qwen2_moe_family() {
  Qwen2MoeConfig standard;
  standard.rope_theta = 1e6;
  standard.moe_intermediate_size = 256;
  return {
      .name = "qwen2_moe",
      .summary = "Qwen2 language model with experts: as qwen2, with a shared expert beside the chosen ones",
      .network = make_network(standard, make_qwen2_moe),
      .hugging_face =
          HuggingFaceForm{
              .model_type = "qwen2_moe",
              .class_name = "Qwen2MoeForCausalLM",
              .config = joined(
                  joined(
                      decoder_config({.vocab_size = 151936,
                                      .hidden_size = 2048,
                                      .intermediate_size = 5632,
                                      .num_hidden_layers = 24,
                                      .num_attention_heads = 16,
                                      .num_key_value_heads = 16,
                                      .max_position_embeddings = 32768},
                                     {flag_entry("qkv_bias", true), size_entry("moe_intermediate_size", 1408),
                                      size_entry("shared_expert_intermediate_size", 5632),
                                      flag_entry("norm_topk_prob", false),
                                      chosen_windows_entry(4096, slides_from_max_window_layers)}),
                      experts_entries({"num_experts", "num_local_experts"}, 60, 4, 0.001)),
                  sparse_layers_entries()),
              .stacked = stacked_experts()},
      .gguf = decoder_gguf(
          {.architecture = "qwen2moe",
           .pre_tokenizer = "qwen2",
           .layers = gguf_layers(),
           .more = joined(gguf_experts_entries(true), {size_entry("expert_shared_feed_forward_length", {},
                                                                  "shared_expert_intermediate_size")})}),
      .vocabulary = {.pattern = "qwen2", .classes = {"Qwen2Tokenizer", "Qwen2TokenizerFast"}}};
}

}  // namespace genesis::models
