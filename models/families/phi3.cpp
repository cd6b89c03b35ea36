// Phi-3, Phi-3.5 and Phi-4 (Microsoft, 2024): a Llama in which a part of each head may rotate, with LongRoPE. Checkpoints hold q, k
// and v as one matrix, and gate_proj and up_proj as another.
#include "models/families/decoder/family.h"

namespace genesis::models {
namespace {

struct Phi3Config : DecoderConfig {
  double partial_rotary_factor = 1;

  static void fields(auto& self, auto&& visit) {
    DecoderConfig::fields(self, visit);
    visit("partial_rotary_factor", self.partial_rotary_factor);
  }
};

std::unique_ptr<Model> make_phi3(const std::string& family, const Phi3Config& c, uint64_t seed) {
  const auto design_of = [&](int64_t layer) { return LayerDesign{.window = c.window_of(layer)}; };
  return make_decoder(family, c, design_of, seed,
                      {.rotary_size = rotary_size_of(family, c, c.partial_rotary_factor)});
}

// The class refuses other kinds of scaling, or reads them as LongRoPE.
void refuse_other_scaling(SettingsReader& r) {
  const nlohmann::json kind = r.settings().value("rope_scaling", nlohmann::json("longrope"));
  if (kind != "longrope") r.add_problem("rope_scaling.type: " + r.shown(kind));
}

// q_proj, k_proj and v_proj as one matrix.
const FusedWeights kFusedQkv = {
    ".self_attn.qkv_proj.weight",
    {".self_attn.q_proj.weight", ".self_attn.k_proj.weight", ".self_attn.v_proj.weight"}};

}  // namespace

Family phi3_family() {
  Phi3Config standard;
  standard.rms_norm_eps = 1e-5;
  return {
      .name = "phi3",
      .summary = "Phi-3 and Phi-4 language models: as llama, a part of each head may rotate; LongRoPE",
      .network = make_network(standard, make_phi3),
      .hugging_face =
          HuggingFaceForm{.model_type = "phi3",
                          .class_name = "Phi3ForCausalLM",
                          .config = decoder_config({.vocab_size = 32064,
                                                    .hidden_size = 3072,
                                                    .intermediate_size = 8192,
                                                    .max_position_embeddings = 4096,
                                                    .norm_eps = 1e-5,
                                                    .partial_rotary_factor = 1},
                                                   {{.settings = {}, .read = refuse_other_scaling},
                                                    window_entry(nullptr),
                                                    only_entry("attention_bias", {false}, false),
                                                    only_entry("mlp_bias", {false}, false),
                                                    only_entry("lm_head_bias", {false}, false),
                                                    only_entry("full_attn_mod", {1}, false),
                                                    only_entry("interpolate_factor", {1}, false)}),
                          .fused = {kFusedQkv, kFusedGateUp}},
      .gguf = decoder_gguf(
          {.architecture = "phi3",
           .pre_tokenizer = "gpt-4o",
           .rotates_parts = true,
           .windows = GgufWindows{},
           .layers = {{"attn_qkv", "self_attn.qkv_proj"}, {"ffn_gate", ""}, {"ffn_up", "mlp.gate_up_proj"}},
           .fused = {kFusedQkv, kFusedGateUp}})};
}

}  // namespace genesis::models
