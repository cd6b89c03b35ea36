// Mamba2 (Dao and Gu, 2024): each layer is a state space alone, without attention and MLP.
#include "models/families/decoder/mamba_config.h"

namespace genesis::models {
namespace {

// A text may have any length: the state has none. The number is that of the longest text that the tools read.
constexpr int64_t kLongest = 1 << 20;

struct Mamba2Config : DecoderConfig, MambaSettings {
  static void fields(auto& self, auto&& visit) {
    visit("vocab_size", self.vocab_size);
    visit("hidden_size", self.hidden_size);
    visit("num_hidden_layers", self.num_hidden_layers);
    visit("max_position_embeddings", self.max_position_embeddings);
    visit("cache_positions", self.cache_positions);
    visit("batch", self.batch);
    visit("rms_norm_eps", self.rms_norm_eps);
    visit("tie_word_embeddings", self.tie_word_embeddings);
    visit("initializer_range", self.initializer_range);
    visit("dtype", self.dtype);
    MambaSettings::fields(self, visit);
  }
};

std::unique_ptr<Model> make_mamba2(const std::string& family, Mamba2Config c, uint64_t seed) {
  c.num_attention_heads = c.num_key_value_heads = 1;
  c.head_dim = 2;
  const LayerDesign design{.norms = kMixerAlone,
                           .mixer = MixerKind::kMamba2,
                           .mlp = MlpKind::kNone,
                           .mixer_module = "mixer",
                           .mamba = c.mamba(family)};
  return make_decoder(family, c, [&](int64_t) { return design; }, seed,
                      {.module = "backbone", .embedding = "embeddings", .last_norm = "norm_f"});
}

ConfigEntries entries() {
  const ConfigEntries mamba = mamba_entries({.heads = "num_heads",
                                             .head_size = "head_dim",
                                             .groups = "n_groups",
                                             .state_size = "state_size",
                                             .taps = "conv_kernel",
                                             .convolution_bias = "use_conv_bias",
                                             .biases = "use_bias",
                                             .expand = "expand",
                                             .default_groups = 8,
                                             .default_state_size = 128,
                                             .default_head_size = 64});
  const ConfigEntry longest{.settings = {"max_position_embeddings"},
                            .read = [](SettingsReader& r) { r.set("max_position_embeddings", kLongest); },
                            .changes_results = false};
  return joined(
      {size_entry("vocab_size", 32768), size_entry("hidden_size", 4096), size_entry("num_hidden_layers", 64),
       number_entry("layer_norm_epsilon", 1e-5, "rms_norm_eps"), flag_entry("tie_word_embeddings", false),
       only_entry("hidden_act", {"silu", "swish"}, true), only_entry("is_causal", {true}, false),
       written_entry("initializer_range", {"initializer_range"}), longest,
       ignored_entry({"norm_before_gate", "rms_norm", "rescale_prenorm_residual", "residual_in_fp32",
                      "time_step_floor", "time_step_max", "time_step_min", "time_step_rank"})},
      mamba);
}

GgufForm gguf_form() {
  GgufForm form{
      .architecture = "mamba2",
      .metadata =
          joined(gguf_mamba_entries(), {size_entry("embedding_length", {}, "hidden_size"),
                                        size_entry("block_count", {}, "num_hidden_layers"),
                                        number_entry("attention.layer_norm_rms_epsilon", {}, "rms_norm_eps"),
                                        ignored_entry({"context_length", "attention.head_count",
                                                       "feed_forward_length", "ssm.dt_b_c_rms"})}),
      .blocks = "backbone.layers.",
      .outside = {{"token_embd", "backbone.embeddings"},
                  {"output_norm", "backbone.norm_f"},
                  {"output", "lm_head"}},
      .inside = gguf_mamba("mixer"),
      .flags = {{"mamba_conv_bias", "blk.0.ssm_conv1d.bias"}, {"mamba_proj_bias", "blk.0.ssm_in.bias"}}};
  form.inside.emplace("attn_norm", "norm");
  return form;
}

}  // namespace

Family mamba2_family() {
  Mamba2Config standard;
  standard.rms_norm_eps = 1e-5;
  standard.max_position_embeddings = kLongest;
  return {.name = "mamba2",
          .summary = "Mamba2 language model: state spaces alone",
          .network = make_network(standard, make_mamba2),
          .hugging_face = HuggingFaceForm{.model_type = "mamba2",
                                          .class_name = "Mamba2ForCausalLM",
                                          .config = entries(),
                                          .prefix = "backbone.",
                                          .embedding = "backbone.embeddings.weight"},
          .gguf = gguf_form()};
}

}  // namespace genesis::models
