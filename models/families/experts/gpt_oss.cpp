// gpt-oss (OpenAI, 2025): every second layer has a window, heads have sinks, and all layers have experts with biases and a clamped GLU.
// Checkpoints hold the experts in MXFP4, gate and up in turns.
#include "models/families/decoder/mixture_config.h"

namespace genesis::models {
namespace {

struct GptOssConfig : MixtureConfig {
  double swiglu_alpha = 1.702;
  double swiglu_limit = 7;
  bool attention_bias = true;

  static void fields(auto& self, auto&& visit) {
    MixtureConfig::fields(self, visit);
    visit("swiglu_alpha", self.swiglu_alpha);
    visit("swiglu_limit", self.swiglu_limit);
    visit("attention_bias", self.attention_bias);
  }
};

std::unique_ptr<Model> make_gpt_oss(const std::string& family, const GptOssConfig& c, uint64_t seed) {
  if (!(c.swiglu_limit > 0)) fail("{}: swiglu_limit is {}, it must be positive", family, c.swiglu_limit);
  ExpertsDesign experts = c.experts(family);
  experts.router = "router";
  experts.scores = RouterScores::kSoftmaxOfChosen;
  experts.biases = true;
  experts.limit = c.swiglu_limit;
  experts.gate_slope = c.swiglu_alpha;
  const auto design_of = [&](int64_t layer) {
    return LayerDesign{.qkv_biases = c.attention_bias,
                       .output_bias = c.attention_bias,
                       .sinks = true,
                       .window = c.window_of(layer),
                       .experts = experts};
  };
  return make_decoder(family, c, design_of, seed);
}

std::map<std::string, std::string> gguf_layers() {
  std::map<std::string, std::string> layers = gguf_experts({.router = "router"});
  layers.insert({{"attn_sinks.weight", "self_attn.sinks"},
                 {"post_attention_norm", "post_attention_layernorm"},
                 {"ffn_norm", ""}});
  return layers;
}

// Returns gate and up in turns, and all matrices the other way around.
std::vector<TurnedWeights> turned_experts() {
  const auto name = [](const char* end) { return std::string(".mlp.experts.") + end; };
  return {{name("gate_up_proj"), {name("gate_proj.weight"), name("up_proj.weight")}},
          {name("gate_up_proj_bias"), {name("gate_proj.bias"), name("up_proj.bias")}},
          {name("down_proj"), {name("down_proj.weight")}},
          {name("down_proj_bias"), {name("down_proj.bias")}}};
}

bool every_second_slides(SettingsReader&, int64_t layer) { return layer % 2 == 0; }

}  // namespace

Family gpt_oss_family() {
  GptOssConfig standard;
  standard.intermediate_size = 256;
  standard.rope_theta = 150000;
  standard.rms_norm_eps = 1e-5;
  return {
      .name = "gpt_oss",
      .summary =
          "gpt-oss language model: sinks of heads, windows by layer, experts with biases and a clamped GLU",
      .network = make_network(standard, make_gpt_oss),
      .hugging_face =
          HuggingFaceForm{
              .model_type = "gpt_oss",
              .class_name = "GptOssForCausalLM",
              .config = joined(
                  decoder_config({.vocab_size = 201088,
                                  .hidden_size = 2880,
                                  .intermediate_size = 2880,
                                  .num_hidden_layers = 36,
                                  .num_attention_heads = 64,
                                  .num_key_value_heads = 8,
                                  .head_dim = 64,
                                  .max_position_embeddings = 131072,
                                  .rope_theta = 150000,
                                  .norm_eps = 1e-5},
                                 {flag_entry("attention_bias", true), number_entry("swiglu_alpha", 1.702),
                                  number_entry("swiglu_limit", 7.0),
                                  ignored_entry({"initial_context_length", "experts_per_token"}),
                                  layer_windows_entry(128, every_second_slides)}),
                  experts_entries({"num_local_experts", "num_experts"}, 128, 4, 0.001)),
              .turned = turned_experts()},
      .gguf = decoder_gguf({.architecture = "gpt-oss",
                            .pre_tokenizer = "gpt-4o",
                            .windows = GgufWindows{.size = 128, .pattern = 2},
                            .layers = gguf_layers(),
                            .more = joined(gguf_experts_entries(false),
                                           {ignored_entry({"expert_feed_forward_length"}),
                                            {.settings = {"rope_truncate"}, .read = [](SettingsReader& r) {
                                               r.set("rope_truncate", false);
                                             }}})})};
}

}  // namespace genesis::models
