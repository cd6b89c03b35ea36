// OLMoE: Muennighoff et al., "OLMoE: open mixture-of-experts language models" (2024).
#include "models/families/decoder/mixture_config.h"

namespace genesis::models {
namespace {

struct OlmoeConfig : MixtureConfig {
  bool norm_topk_prob = false;  // the factors of a token's experts add up to 1

  static void fields(auto& self, auto&& visit) {
    MixtureConfig::fields(self, visit);
    visit("norm_topk_prob", self.norm_topk_prob);
  }
};

std::unique_ptr<Model> make_olmoe(const std::string& family, const OlmoeConfig& c, uint64_t seed) {
  ExpertsDesign experts = c.experts(family);
  experts.normalized = c.norm_topk_prob;
  const auto design_of = [&](int64_t layer) {
    return LayerDesign{.head_norms = HeadNorms::kWhole, .window = c.window_of(layer), .experts = experts};
  };
  return make_decoder(family, c, design_of, seed);
}

}  // namespace

Family olmoe_family() {
  OlmoeConfig standard;
  standard.intermediate_size = 256;
  standard.rms_norm_eps = 1e-5;
  standard.router_aux_loss_coef = 0.01;
  return {.name = "olmoe",
          .summary =
              "OLMoE language model: as llama, with norms of whole q and k, and experts instead of the MLP",
          .network = make_network(standard, make_olmoe),
          .hugging_face =
              HuggingFaceForm{
                  .model_type = "olmoe",
                  .class_name = "OlmoeForCausalLM",
                  .config = joined(decoder_config({.vocab_size = 50304,
                                                   .hidden_size = 2048,
                                                   .intermediate_size = 2048,
                                                   .num_hidden_layers = 16,
                                                   .num_attention_heads = 16,
                                                   .max_position_embeddings = 4096,
                                                   .norm_eps = 1e-5},
                                                  {only_entry("attention_bias", {false}, true),
                                                   only_entry("clip_qkv", {nullptr}, true),
                                                   flag_entry("norm_topk_prob", false), no_windows_entry()}),
                                   experts_entries({"num_experts", "num_local_experts"}, 64, 8, 0.01)),
                  .stacked = stacked_experts()},
          .gguf = decoder_gguf({.architecture = "olmoe",
                                .pre_tokenizer = "olmo",
                                .layers = gguf_experts(),
                                .more = joined(gguf_experts_entries(false),
                                               {ignored_entry({"expert_feed_forward_length"})})})};
}

}  // namespace genesis::models
