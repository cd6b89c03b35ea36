// Mixtral: Jiang et al., "Mixtral of experts" (2024).
#include "models/families/decoder/mixture_config.h"

namespace genesis::models {
namespace {

// The names of the modules in checkpoints.
constexpr ExpertsDesign kNames = {.module = "block_sparse_moe", .gate = "w1", .up = "w3", .down = "w2"};

std::unique_ptr<Model> make_mixtral(const std::string& family, const MixtureConfig& c, uint64_t seed) {
  ExpertsDesign experts = named_like(kNames, c.experts(family));
  experts.normalized = true;
  const auto design_of = [&](int64_t layer) {
    return LayerDesign{.window = c.window_of(layer), .experts = experts};
  };
  return make_decoder(family, c, design_of, seed);
}

}  // namespace

Family mixtral_family() {
  MixtureConfig standard;
  standard.intermediate_size = 256;
  standard.rope_theta = 1e6;
  standard.rms_norm_eps = 1e-5;
  return {.name = "mixtral",
          .summary = "Mixtral language model: as mistral, with experts instead of the MLP",
          .network = make_network(standard, make_mixtral),
          .hugging_face =
              HuggingFaceForm{
                  .model_type = "mixtral",
                  .class_name = "MixtralForCausalLM",
                  .config = joined(
                      decoder_config({.intermediate_size = 14336,
                                      .num_key_value_heads = 8,
                                      .max_position_embeddings = 131072,
                                      .rope_theta = 1e6,
                                      .norm_eps = 1e-5},
                                     {only_entry("router_jitter_noise", {0.0}, false),
                                      only_entry("attention_bias", {false}, false), window_entry(nullptr)}),
                      experts_entries({"num_local_experts", "num_experts"}, 8, 2, 0.001)),
                  .stacked = stacked_experts(kNames)},
          .gguf = decoder_gguf({.architecture = "llama",
                                .pre_tokenizer = "default",
                                .rows_in_pairs = true,
                                .layers = gguf_experts(kNames),
                                .more = gguf_experts_entries(false),
                                .mark = "expert_count"})};
}

}  // namespace genesis::models
