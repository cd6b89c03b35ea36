// Command R7B and Command A (Cohere, 2024): as Command R, with windows. Layers that see all tokens do not rotate.
#include "models/families/decoder/family.h"

namespace genesis::models {
namespace {

struct Cohere2Config : DecoderConfig {
  double logit_scale = 0.0625;

  static void fields(auto& self, auto&& visit) {
    DecoderConfig::fields(self, visit);
    visit("logit_scale", self.logit_scale);
  }
};

std::unique_ptr<Model> make_cohere2(const std::string& family, const Cohere2Config& c, uint64_t seed) {
  const auto design_of = [&](int64_t layer) {
    const int64_t window = c.window_of(layer);
    return LayerDesign{.norms = kParallel,
                       .rotation = window > 0 ? RotationKind::kRotary : RotationKind::kNone,
                       .pairs = RopeKind::kInterleaved,
                       .window = window};
  };
  return make_decoder(family, c, design_of, seed,
                      {.norm = NormKind::kLayerWithoutBias, .logits_scale = c.logit_scale});
}

}  // namespace

Family cohere2_family() {
  Cohere2Config standard;
  standard.rms_norm_eps = 1e-5;
  standard.tie_word_embeddings = true;
  standard.sliding_window = 4096;  // without windows nothing rotates
  return {.name = "cohere2",
          .summary =
              "Command R7B and Command A language models: as cohere, windows with rotation between full "
              "layers without",
          .network = make_network(standard, make_cohere2),
          .hugging_face =
              HuggingFaceForm{
                  .model_type = "cohere2",
                  .class_name = "Cohere2ForCausalLM",
                  .config = decoder_config(
                      {.vocab_size = 256000,
                       .hidden_size = 8192,
                       .intermediate_size = 22528,
                       .num_hidden_layers = 40,
                       .num_attention_heads = 64,
                       .max_position_embeddings = 8192,
                       .tie_word_embeddings = true,
                       .norm_eps = 1e-5,
                       .norm_eps_name = "layer_norm_eps"},
                      {number_entry("logit_scale", 0.0625), only_entry("attention_bias", {false}, true),
                       layer_windows_entry(4096, slides_by_pattern(4)), only_entry("rotary_pct", {1}, false),
                       only_entry("position_embedding_type", {"rope_gptj"}, false),
                       only_entry("use_gated_activation", {true}, false),
                       only_entry("use_parallel_block", {true}, false),
                       only_entry("order_of_interleaved_layers", {"local_attn_first"}, false),
                       ignored_entry({"layer_switch", "use_embedding_sharing", "use_parallel_embedding",
                                      "cache_implementation"})})},
          .gguf = decoder_gguf({.architecture = "cohere2",
                                .pre_tokenizer = "command-r",
                                .norm_eps = kLayerNormEps,
                                .windows = GgufWindows{.size = 4096, .pattern = 4},
                                .layers = {{"ffn_norm", ""}},
                                .more = {number_entry("logit_scale")}})};
}

}  // namespace genesis::models
