// Qwen3-Next (Alibaba, 2025): three of four layers have the gated delta rule instead of attention, whose heads have gates; all layers
// have experts.
#include "models/families/decoder/delta_config.h"
#include "models/families/decoder/mixture_config.h"

namespace genesis::models {
namespace {

struct Qwen3NextConfig : MixtureConfig, SparseLayers, DeltaConfig {
  int64_t shared_expert_intermediate_size = 256;
  bool norm_topk_prob = true;  // the factors of a token's experts add up to 1

  static void fields(auto& self, auto&& visit) {
    MixtureConfig::fields(self, visit);
    SparseLayers::fields(self, visit);
    visit("shared_expert_intermediate_size", self.shared_expert_intermediate_size);
    visit("norm_topk_prob", self.norm_topk_prob);
    DeltaConfig::fields(self, visit);
  }
};

std::unique_ptr<Model> make_qwen3_next(const std::string& family, const Qwen3NextConfig& c, uint64_t seed) {
  ExpertsDesign experts = c.experts(family);
  experts.normalized = c.norm_topk_prob;
  experts.shared_size = c.shared_expert_intermediate_size;
  experts.shared_gate = "shared_expert_gate";
  const auto experts_of = [&](int64_t layer) { return c.has_experts(layer) ? experts : ExpertsDesign{}; };
  return make_delta_decoder(family, c, c, false, experts_of, seed);
}

ConfigEntries own_entries() {
  return joined({size_entry("moe_intermediate_size", 512), size_entry("shared_expert_intermediate_size", 512),
                 flag_entry("norm_topk_prob", true)},
                delta_entries());
}

GgufForm gguf_form() {
  DecoderGguf form = delta_gguf("qwen3next", false);
  form.layers.merge(gguf_experts());
  form.layers.emplace("ffn_gate_inp_shexp", "mlp.shared_expert_gate");
  form.layers.emplace("ffn_gate_up_exps", "mlp.experts.gate_up_proj");
  form.fused = {kFusedExperts};
  form.more = joined(form.more, joined(gguf_experts_entries(true), {gguf_shared_expert_entry()}));
  return decoder_gguf(form);
}

}  // namespace

Family qwen3_next_family() {
  Qwen3NextConfig standard;
  standard.rope_theta = 1e7;
  standard.moe_intermediate_size = 256;
  return {
      .name = "qwen3_next",
      .summary =
          "Qwen3-Next language model: the gated delta rule, every fourth layer with gated attention, experts",
      .network = make_network(standard, make_qwen3_next),
      .hugging_face =
          HuggingFaceForm{
              .model_type = "qwen3_next",
              .class_name = "Qwen3NextForCausalLM",
              .config = joined(joined(decoder_config({.vocab_size = 151936,
                                                      .hidden_size = 2048,
                                                      .intermediate_size = 5632,
                                                      .num_hidden_layers = 48,
                                                      .num_attention_heads = 16,
                                                      .num_key_value_heads = 2,
                                                      .head_dim = 256,
                                                      .max_position_embeddings = 32768,
                                                      .partial_rotary_factor = 0.25},
                                                     own_entries()),
                                      experts_entries({"num_experts", "num_local_experts"}, 512, 10, 0.001)),
                               sparse_layers_entries()),
              .stacked = stacked_experts()},
      .gguf = gguf_form()};
}

}  // namespace genesis::models
