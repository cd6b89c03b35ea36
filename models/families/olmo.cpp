// OLMo 1: Groeneveld et al., "OLMo: accelerating the science of language models" (2024). Norms have no weights, and q, k and v may
// be clamped.
#include "models/families/decoder/family.h"

namespace genesis::models {
namespace {

struct OlmoConfig : DecoderConfig {
  double clip_qkv = 0;  // greatest magnitude of q, k and v; 0: none

  static void fields(auto& self, auto&& visit) {
    DecoderConfig::fields(self, visit);
    visit("clip_qkv", self.clip_qkv);
  }
};

std::unique_ptr<Model> make_olmo(const std::string& family, const OlmoConfig& c, uint64_t seed) {
  const auto design_of = [&](int64_t layer) {
    return LayerDesign{.qkv_limit = c.clip_qkv, .window = c.window_of(layer)};
  };
  return make_decoder(family, c, design_of, seed, {.norm = NormKind::kLayerWithoutWeights});
}

}  // namespace

Family olmo_family() {
  OlmoConfig standard;
  standard.rms_norm_eps = 1e-5;  // config.json cannot say another one
  return {
      .name = "olmo",
      .summary = "OLMo 1 language model: as llama, with LayerNorm without weights; clamped q/k/v by setting",
      .network = make_network(standard, make_olmo),
      .hugging_face = HuggingFaceForm{.model_type = "olmo",
                                      .class_name = "OlmoForCausalLM",
                                      .config = decoder_config(
                                          {.vocab_size = 50304, .norm_eps_name = nullptr},
                                          {optional_number_entry("clip_qkv", nullptr),
                                           only_entry("attention_bias", {false}, true), no_windows_entry()})},
      .gguf = decoder_gguf({.architecture = "olmo",
                            .pre_tokenizer = "olmo",
                            .rows_in_pairs = true,
                            .norm_eps = kLayerNormEps,
                            .more = {number_entry("attention.clamp_kqv", 0.0, "clip_qkv")}})};
}

}  // namespace genesis::models
