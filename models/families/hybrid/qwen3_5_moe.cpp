// Qwen3.5 and Qwen3.6 with experts, such as Qwen3.6-35B-A3B (Alibaba, 2026): as Qwen3-Next, with a product for each input of the gated
// delta rule.
#include "models/families/decoder/delta_config.h"
#include "models/families/decoder/mixture_config.h"

namespace genesis::models {
namespace {

struct Qwen35MoeConfig : MixtureConfig, DeltaConfig {
  int64_t shared_expert_intermediate_size = 256;

  static void fields(auto& self, auto&& visit) {
    MixtureConfig::fields(self, visit);
    visit("shared_expert_intermediate_size", self.shared_expert_intermediate_size);
    DeltaConfig::fields(self, visit);
  }
};

std::unique_ptr<Model> make_qwen3_5_moe(const std::string& family, const Qwen35MoeConfig& c, uint64_t seed) {
  ExpertsDesign experts = c.experts(family);
  experts.normalized = true;
  experts.shared_size = c.shared_expert_intermediate_size;
  experts.shared_gate = "shared_expert_gate";
  const auto experts_of = [&](int64_t) { return experts; };
  return make_delta_decoder(family, c, c, true, experts_of, seed);
}

ConfigEntries own_entries() {
  return joined(
      {size_entry("moe_intermediate_size", 512), size_entry("shared_expert_intermediate_size", 512)},
      delta_entries());
}

GgufForm gguf_form() {
  DecoderGguf form = delta_gguf("qwen35moe", true);
  form.layers.merge(gguf_experts());
  form.layers.emplace("ffn_gate_inp_shexp", "mlp.shared_expert_gate");
  form.layers.emplace("ffn_gate_up_exps", "mlp.experts.gate_up_proj");
  form.fused = {kFusedExperts};
  form.more = joined(form.more, joined(gguf_experts_entries(true), {gguf_shared_expert_entry()}));
  // No layer has an MLP.
  form.instead.push_back({.settings = {"intermediate_size"},
                          .read = [](SettingsReader& r) { r.ignore({"feed_forward_length"}); }});
  return decoder_gguf(form);
}

}  // namespace

Family qwen3_5_moe_family() {
  Qwen35MoeConfig standard;
  standard.rope_theta = 1e7;
  standard.moe_intermediate_size = 256;
  return {.name = "qwen3_5_moe",
          .summary =
              "Qwen3.5 language model with experts: the gated delta rule, every fourth layer with gated "
              "attention",
          .network = make_network(standard, make_qwen3_5_moe),
          .hugging_face =
              HuggingFaceForm{
                  .model_type = "qwen3_5_moe_text",
                  .class_name = "Qwen3_5MoeForCausalLM",
                  .config = joined(decoder_config({.vocab_size = 248320,
                                                   .hidden_size = 2048,
                                                   .intermediate_size = 5632,
                                                   .num_hidden_layers = 40,
                                                   .num_attention_heads = 16,
                                                   .num_key_value_heads = 2,
                                                   .head_dim = 256,
                                                   .max_position_embeddings = 32768,
                                                   .partial_rotary_factor = 0.25},
                                                  own_entries()),
                                   experts_entries({"num_experts", "num_local_experts"}, 256, 8, 0.001)),
                  .stacked = stacked_experts()},
          .gguf = gguf_form()};
}

}  // namespace genesis::models
