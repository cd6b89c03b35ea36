// MiniMax-M2 (MiniMax, 2025): norms of whole q and k, a part of each head rotates, and all layers have experts, chosen by a sigmoid and
// a bias.
#include "models/families/decoder/mixture_config.h"

namespace genesis::models {
namespace {

struct MiniMaxM2Config : MixtureConfig {
  double partial_rotary_factor = 1;

  static void fields(auto& self, auto&& visit) {
    MixtureConfig::fields(self, visit);
    visit("partial_rotary_factor", self.partial_rotary_factor);
  }
};

// The names of the modules in checkpoints.
constexpr ExpertsDesign kNames = {.choice_bias = "e_score_correction_bias",
                                  .module = "block_sparse_moe",
                                  .gate = "w1",
                                  .up = "w3",
                                  .down = "w2"};

std::unique_ptr<Model> make_minimax_m2(const std::string& family, const MiniMaxM2Config& c, uint64_t seed) {
  ExpertsDesign experts = named_like(kNames, c.experts(family));
  experts.scores = RouterScores::kSigmoid;
  experts.normalized = true;
  const auto design_of = [&](int64_t layer) {
    return LayerDesign{.head_norms = HeadNorms::kWhole, .window = c.window_of(layer), .experts = experts};
  };
  return make_decoder(family, c, design_of, seed,
                      {.rotary_size = rotary_size_of(family, c, c.partial_rotary_factor)});
}

// Older configurations say the number of elements that rotate.
void read_rotary_dim(SettingsReader& r) {
  const int64_t rotating = r.integer("rotary_dim", 0), head = r.size("head_dim");
  if (rotating > 0 && head > 0)
    r.set("partial_rotary_factor", static_cast<double>(rotating) / static_cast<double>(head));
}

GgufForm gguf_form() {
  std::map<std::string, std::string> layers = gguf_experts(kNames);
  layers.emplace("exp_probs_b.bias", "block_sparse_moe.e_score_correction_bias");
  const ConfigEntry scores{.settings = {}, .read = [](SettingsReader& r) {
                             r.must_be_one_of("expert_gating_func", {nullptr, 2});
                           }};
  return decoder_gguf(
      {.architecture = "minimax-m2",
       .pre_tokenizer = "minimax-m2",
       .rotates_parts = true,
       .layers = layers,
       .more = joined(gguf_experts_entries(false), {scores, ignored_entry({"expert_feed_forward_length"})}),
       .instead = {gguf_layers_entry()}});
}

}  // namespace

Family minimax_m2_family() {
  MiniMaxM2Config standard;
  standard.intermediate_size = 256;
  standard.rope_theta = 5e6;
  return {
      .name = "minimax_m2",
      .summary = "MiniMax-M2 language model: norms of whole q and k, a part of each head rotates, experts",
      .network = make_network(standard, make_minimax_m2),
      .hugging_face =
          HuggingFaceForm{
              .model_type = "minimax_m2",
              .class_name = "MiniMaxM2ForCausalLM",
              .config = joined(
                  decoder_config({.vocab_size = 200064,
                                  .hidden_size = 3072,
                                  .intermediate_size = 1536,
                                  .num_hidden_layers = 62,
                                  .num_attention_heads = 48,
                                  .num_key_value_heads = 8,
                                  .head_dim = 128,
                                  .max_position_embeddings = 196608,
                                  .rope_theta = 5e6,
                                  .partial_rotary_factor = 1},
                                 {{.settings = {}, .read = read_rotary_dim},
                                  only_entry("router_jitter_noise", {0.0}, false),
                                  only_entry("use_qk_norm", {true}, false),
                                  only_entry("use_routing_bias", {true}, false),
                                  only_entry("scoring_func", {"sigmoid"}, false),
                                  only_entry("qk_norm_type", {"per_layer"}, false),
                                  only_entry("shared_intermediate_size", {0}, false),
                                  ignored_entry({"attn_type_list", "use_mtp", "num_mtp_modules",
                                                 "mtp_transformer_layers", "layernorm_full_attention_beta",
                                                 "layernorm_linear_attention_beta", "layernorm_mlp_beta"}),
                                  no_windows_entry()}),
                  experts_entries({"num_local_experts", "num_experts"}, 256, 8, 0.001)),
              .stacked = stacked_experts(kNames)},
      .gguf = gguf_form()};
}

}  // namespace genesis::models
