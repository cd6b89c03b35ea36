// OLMo 3 (Ai2, 2025): OLMo 2 with windows in three of four layers, whose rotation is not scaled.
#include "models/families/decoder/family.h"

namespace genesis::models {
namespace {

struct Olmo3Config : DecoderConfig {
  double rope_local_base_freq = 5e5;  // the base of the rotation in layers with a window

  static void fields(auto& self, auto&& visit) {
    DecoderConfig::fields(self, visit);
    visit("rope_local_base_freq", self.rope_local_base_freq);
  }
};

std::unique_ptr<Model> make_olmo3(const std::string& family, const Olmo3Config& c, uint64_t seed) {
  if (!(c.rope_local_base_freq > 0))
    fail("{}: rope_local_base_freq is {}, it must be positive", family, c.rope_local_base_freq);
  const auto design_of = [&](int64_t layer) {
    const int64_t window = c.window_of(layer);
    return LayerDesign{.norms = kNormsAfter,
                       .head_norms = HeadNorms::kWhole,
                       .local_theta = window > 0 ? c.rope_local_base_freq : 0,
                       .window = window};
  };
  return make_decoder(family, c, design_of, seed);
}

// Files whose layers rotate alike say one base.
void read_local_theta(SettingsReader& r) {
  r.copy_number("rope.freq_base_swa", "rope_local_base_freq",
                r.settings().value("rope_theta", nlohmann::json()));
}

}  // namespace

Family olmo3_family() {
  Olmo3Config standard;
  standard.rope_theta = 5e5;
  standard.rms_norm_eps = 1e-5;
  return {.name = "olmo3",
          .summary = "OLMo 3 language model: as olmo2, with windows in three of four layers",
          .network = make_network(standard, make_olmo3),
          .hugging_face =
              HuggingFaceForm{
                  .model_type = "olmo3",
                  .class_name = "Olmo3ForCausalLM",
                  .config = decoder_config(
                      {.vocab_size = 50304, .rope_theta = 5e5, .norm_eps = 1e-5, .rope_local_base_freq = 5e5},
                      {only_entry("attention_bias", {false}, true),
                       layer_windows_entry(4096, slides_by_pattern(4))})},
          .gguf = decoder_gguf({.architecture = "olmo2",
                                .pre_tokenizer = "dbrx",
                                .windows = GgufWindows{.pattern = 4},
                                .layers = {{"ffn_norm", ""},
                                           {"attn_norm", ""},
                                           {"post_attention_norm", "post_attention_layernorm"},
                                           {"post_ffw_norm", "post_feedforward_layernorm"}},
                                .more = {{.settings = {"rope_local_base_freq"}, .read = read_local_theta}},
                                .mark = "attention.sliding_window"})};
}

}  // namespace genesis::models
