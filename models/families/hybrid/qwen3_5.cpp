// Qwen3.5 and Qwen3.6, dense (Alibaba, 2026): as Qwen3-Next with an MLP in each layer, and a product for each input of the gated delta
// rule.
#include "models/families/decoder/delta_config.h"

namespace genesis::models {
namespace {

struct Qwen35Config : DecoderConfig, DeltaConfig {
  static void fields(auto& self, auto&& visit) {
    DecoderConfig::fields(self, visit);
    DeltaConfig::fields(self, visit);
  }
};

std::unique_ptr<Model> make_qwen3_5(const std::string& family, const Qwen35Config& c, uint64_t seed) {
  const auto experts_of = [](int64_t) { return ExpertsDesign{}; };
  return make_delta_decoder(family, c, c, true, experts_of, seed);
}

}  // namespace

Family qwen3_5_family() {
  Qwen35Config standard;
  standard.rope_theta = 1e7;
  return {.name = "qwen3_5",
          .summary =
              "Qwen3.5 language model, dense: the gated delta rule, every fourth layer with gated attention",
          .network = make_network(standard, make_qwen3_5),
          .hugging_face = HuggingFaceForm{.model_type = "qwen3_5_text",
                                          .class_name = "Qwen3_5ForCausalLM",
                                          .config = decoder_config({.vocab_size = 248320,
                                                                    .hidden_size = 4096,
                                                                    .intermediate_size = 12288,
                                                                    .num_hidden_layers = 32,
                                                                    .num_attention_heads = 16,
                                                                    .num_key_value_heads = 4,
                                                                    .head_dim = 256,
                                                                    .max_position_embeddings = 32768,
                                                                    .partial_rotary_factor = 0.25},
                                                                   delta_entries())},
          .gguf = decoder_gguf(delta_gguf("qwen35", true))};
}

}  // namespace genesis::models
