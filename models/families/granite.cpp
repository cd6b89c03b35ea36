// Granite 3 (IBM, 2024): a Llama with multipliers of embeddings, residuals, scores and logits.
#include <algorithm>
#include <cmath>

#include "models/families/decoder/family.h"

namespace genesis::models {
namespace {

struct GraniteConfig : DecoderConfig {
  double embedding_multiplier = 1;
  double residual_multiplier = 1;   // multiplies what attention and MLP add
  double attention_multiplier = 1;  // multiplies scores, instead of 1 / sqrt(head size)
  double logits_scaling = 1;        // divides the logits

  static void fields(auto& self, auto&& visit) {
    DecoderConfig::fields(self, visit);
    visit("embedding_multiplier", self.embedding_multiplier);
    visit("residual_multiplier", self.residual_multiplier);
    visit("attention_multiplier", self.attention_multiplier);
    visit("logits_scaling", self.logits_scaling);
  }
};

std::unique_ptr<Model> make_granite(const std::string& family, const GraniteConfig& c, uint64_t seed) {
  for (const auto& [name, value] :
       {std::pair("attention_multiplier", c.attention_multiplier), {"logits_scaling", c.logits_scaling}})
    if (!(value > 0)) fail("{}: {} is {}, it must be positive", family, name, value);
  const auto design_of = [&](int64_t layer) {
    return LayerDesign{.score_scale = c.attention_multiplier,
                       .window = c.window_of(layer),
                       .residual_scale = c.residual_multiplier};
  };
  return make_decoder(family, c, design_of, seed,
                      {.embedding_scale = c.embedding_multiplier, .logits_scale = 1 / c.logits_scaling});
}

// llama.cpp takes the usual scale where a file has none.
void read_score_scale(SettingsReader& r) {
  const int64_t head = std::max<int64_t>(1, r.size("head_dim"));
  r.copy_number("attention.scale", "attention_multiplier", 1 / std::sqrt(static_cast<double>(head)));
}

}  // namespace

Family granite_family() {
  return {
      .name = "granite",
      .summary = "Granite language model: as llama, with multipliers",
      .network = make_network(GraniteConfig{}, make_granite),
      .hugging_face =
          HuggingFaceForm{
              .model_type = "granite",
              .class_name = "GraniteForCausalLM",
              .config = decoder_config(
                  {}, {number_entry("embedding_multiplier", 1.0), number_entry("residual_multiplier", 1.0),
                       number_entry("attention_multiplier", 1.0), number_entry("logits_scaling", 1.0),
                       only_entry("attention_bias", {false}, true), only_entry("mlp_bias", {false}, true),
                       no_windows_entry()})},
      .gguf = decoder_gguf({.architecture = "granite",
                            .pre_tokenizer = "refact",
                            .rows_in_pairs = true,
                            .more = {number_entry("embedding_scale", 1.0, "embedding_multiplier"),
                                     number_entry("residual_scale", 1.0, "residual_multiplier"),
                                     {.settings = {"attention_multiplier"}, .read = read_score_scale},
                                     number_entry("logit_scale", {}, "logits_scaling")}})};
}

}  // namespace genesis::models
