// Qwen3 with experts: "Qwen3 technical report" (2025).
#include "models/families/decoder/mixture_config.h"

namespace genesis::models {
namespace {

struct Qwen3MoeConfig : MixtureConfig, SparseLayers {
  bool norm_topk_prob = false;  // the factors of a token's experts add up to 1

  static void fields(auto& self, auto&& visit) {
    MixtureConfig::fields(self, visit);
    SparseLayers::fields(self, visit);
    visit("norm_topk_prob", self.norm_topk_prob);
  }
};

std::unique_ptr<Model> make_qwen3_moe(const std::string& family, const Qwen3MoeConfig& c, uint64_t seed) {
  ExpertsDesign experts = c.experts(family);
  experts.normalized = c.norm_topk_prob;
  const auto design_of = [&](int64_t layer) {
    return LayerDesign{.head_norms = HeadNorms::kPerHead,
                       .window = c.window_of(layer),
                       .experts = c.has_experts(layer) ? experts : ExpertsDesign{}};
  };
  return make_decoder(family, c, design_of, seed);
}

}  // namespace

Family qwen3_moe_family() {
  Qwen3MoeConfig standard;
  standard.rope_theta = 1e6;
  standard.moe_intermediate_size = 256;
  return {
      .name = "qwen3_moe",
      .summary = "Qwen3 language model with experts: as qwen3, some layers with experts instead of the MLP",
      .network = make_network(standard, make_qwen3_moe),
      .hugging_face =
          HuggingFaceForm{
              .model_type = "qwen3_moe",
              .class_name = "Qwen3MoeForCausalLM",
              .config = joined(joined(decoder_config({.vocab_size = 151936,
                                                      .hidden_size = 2048,
                                                      .intermediate_size = 6144,
                                                      .num_hidden_layers = 24,
                                                      .num_key_value_heads = 4,
                                                      .max_position_embeddings = 32768},
                                                     {only_entry("attention_bias", {false}, true),
                                                      size_entry("moe_intermediate_size", 768),
                                                      flag_entry("norm_topk_prob", false),
                                                      chosen_windows_entry(4096, all_slide)}),
                                      experts_entries({"num_experts", "num_local_experts"}, 128, 8, 0.001)),
                               sparse_layers_entries()),
              .stacked = stacked_experts()},
      .gguf = decoder_gguf(
          {.architecture = "qwen3moe",
           .pre_tokenizer = "qwen2",
           .layers = gguf_experts(),
           .more = joined(gguf_experts_entries(true),
                          {{.settings = {"norm_topk_prob"},
                            .read = [](SettingsReader& r) { r.set("norm_topk_prob", true); }}})}),
      .vocabulary = {.pattern = "qwen2"}};
}

}  // namespace genesis::models
