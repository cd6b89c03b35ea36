// Nemotron-H and Nemotron 3 (NVIDIA, 2025): each layer is one thing: Mamba2, attention without rotation, an MLP with relu^2, or experts
// of such MLPs.
#include <utility>

#include "models/config_sizes.h"
#include "models/families/decoder/mamba_config.h"
#include "models/families/decoder/mixture_config.h"

namespace genesis::models {
namespace {

using nlohmann::json;

constexpr const char *kMlpLayer = "mlp", *kExpertsLayer = "moe";

LayerCycle nemotron_cycle() { return {kMambaLayer, kExpertsLayer, kAttentionLayer, kMlpLayer}; }

struct NemotronHConfig : MixtureConfig, MambaSettings {
  int64_t moe_shared_expert_intermediate_size = 256;
  int64_t moe_latent_size = 0;  // features that experts read; 0: hidden_size
  int64_t n_group = 1, topk_group = 1;
  bool norm_topk_prob = true;  // the factors of a token's experts add up to 1, before they are scaled
  double routed_scaling_factor = 1;

  static void fields(auto& self, auto&& visit) {
    MixtureConfig::fields(self, visit);
    MambaSettings::fields(self, visit);
    visit("moe_shared_expert_intermediate_size", self.moe_shared_expert_intermediate_size);
    visit("moe_latent_size", self.moe_latent_size);
    visit("n_group", self.n_group);
    visit("topk_group", self.topk_group);
    visit("norm_topk_prob", self.norm_topk_prob);
    visit("routed_scaling_factor", self.routed_scaling_factor);
  }

  ExpertsDesign routed_experts(const std::string& family) const {
    SigmoidRouter router;
    router.n_group = n_group;
    router.topk_group = topk_group;
    router.norm_topk_prob = norm_topk_prob;
    router.routed_scaling_factor = routed_scaling_factor;
    ExpertsDesign design = router.routed(family, experts(family));
    check_size(family, "moe_shared_expert_intermediate_size", moe_shared_expert_intermediate_size);
    if (moe_latent_size != 0) check_size(family, "moe_latent_size", moe_latent_size);
    design.shared_size = moe_shared_expert_intermediate_size;
    design.latent_size = moe_latent_size;
    design.module = "mixer";
    design.gate = nullptr;
    return design;
  }
};

std::unique_ptr<Model> make_nemotron_h(const std::string& family, NemotronHConfig c, uint64_t seed) {
  const auto kinds =
      kinds_of_layers(family, nemotron_cycle(), std::exchange(c.layer_types, {}), c.num_hidden_layers);
  const ExpertsDesign experts = c.routed_experts(family);
  const MambaDesign mamba = c.mamba(family);
  const auto design_of = [&](int64_t layer) {
    const std::string& kind = kinds[static_cast<size_t>(layer)];
    if (kind == kMlpLayer || kind == kExpertsLayer)
      return LayerDesign{.norms = kMlpAlone,
                         .mixer = MixerKind::kNone,
                         .mlp = MlpKind::kSquaredRelu,
                         .mlp_module = "mixer",
                         .experts = kind == kExpertsLayer ? experts : ExpertsDesign{}};
    return LayerDesign{.norms = kMixerAlone,
                       .mixer = kind == kMambaLayer ? MixerKind::kMamba2 : MixerKind::kAttention,
                       .rotation = RotationKind::kNone,
                       .mlp = MlpKind::kNone,
                       .mixer_module = "mixer",
                       .mamba = mamba};
  };
  return make_decoder(family, c, design_of, seed,
                      {.module = "backbone", .embedding = "embeddings", .last_norm = "norm_f"});
}

// Layers are listed by kind, or are letters of a text.
ConfigEntry layers_entry() {
  ConfigEntry entry = layer_kinds_entry("layers_block_type", "layer_types", nemotron_cycle(), kMambaLayer);
  entry.read = [by_list = entry.read](SettingsReader& r) {
    const json& letters = r.get("hybrid_override_pattern");
    if (r.has("layers_block_type") || r.has("layer_types")) return by_list(r);
    if (!letters.is_string())
      return read_layer_kinds(r, "layers_block_type", nemotron_cycle(), nemotron_cycle());
    json kinds = json::array();
    for (const char letter : letters.get<std::string>())
      kinds.push_back(letter == 'M'   ? kMambaLayer
                      : letter == 'E' ? kExpertsLayer
                      : letter == '*' ? kAttentionLayer
                      : letter == '-' ? kMlpLayer
                                      : std::string(1, letter));
    read_layer_kinds(r, "hybrid_override_pattern", kinds, nemotron_cycle());
  };
  entry.replaces.emplace_back("hybrid_override_pattern");
  return entry;
}

ConfigEntry latent_entry() {
  return {.settings = {"moe_latent_size"},
          .read =
              [](SettingsReader& r) {
                if (r.has("moe_latent_size")) r.copy_size("moe_latent_size", "moe_latent_size");
              },
          .write =
              [](const json& settings, json& config) {
                const json& size = settings.at("moe_latent_size");
                config["moe_latent_size"] = size == 0 ? json() : size;
              }};
}

ConfigEntries own_entries() {
  const ConfigEntries mamba = mamba_entries({.heads = "mamba_num_heads",
                                             .head_size = "mamba_head_dim",
                                             .groups = "n_groups",
                                             .state_size = "ssm_state_size",
                                             .taps = "conv_kernel",
                                             .convolution_bias = "use_conv_bias",
                                             .biases = "use_bias",
                                             .expand = nullptr,
                                             .default_groups = 8,
                                             .default_state_size = 128,
                                             .default_head_size = 64});
  return joined(
      joined(mamba, experts_entries({"n_routed_experts", "num_local_experts", "num_experts"}, 8, 2, 0.0)),
      {size_entry("moe_intermediate_size", 7688), size_entry("moe_shared_expert_intermediate_size", 7688),
       latent_entry(), size_entry("n_group", 1), size_entry("topk_group", 1),
       flag_entry("norm_topk_prob", true), number_entry("routed_scaling_factor", 1.0), layers_entry(),
       only_entry("sliding_window", {nullptr}, false), only_entry("attention_bias", {false}, true),
       only_entry("mlp_bias", {false}, true), only_entry("mamba_proj_bias", {false}, true),
       only_entry("mamba_hidden_act", {"silu"}, true), only_entry("n_shared_experts", {1}, true),
       ignored_entry({"expand", "hidden_dropout", "mamba_ssm_cache_dtype", "moe_shared_expert_overlap",
                      "mtp_layers_block_type", "mtp_hybrid_override_pattern", "num_nextn_predict_layers",
                      "rescale_prenorm_residual", "residual_in_fp32", "time_step_floor", "time_step_max",
                      "time_step_min"})});
}

// A layer with heads of keys has attention, one with a feed-forward size an MLP or experts, and the others have Mamba2.
void read_gguf_layers(SettingsReader& r) {
  const json &heads = r.get("attention.head_count_kv"), &sizes = r.get("feed_forward_length");
  const bool has_experts = r.integer("expert_count", 0) > 0;
  json kinds = json::array();
  for (int64_t i = 0; i < std::min(r.size("num_hidden_layers"), kMaxLayers); ++i)
    kinds.push_back(gguf_number_of_layer(heads, i) > 0    ? kAttentionLayer
                    : gguf_number_of_layer(sizes, i) <= 0 ? kMambaLayer
                    : has_experts                         ? kExpertsLayer
                                                          : kMlpLayer);
  read_layer_kinds(r, "feed_forward_length", kinds, nemotron_cycle());
}

void read_gguf_experts(SettingsReader& r) {
  if (r.integer("expert_count", 0) <= 0) return;
  for (const ConfigEntry& entry : joined(gguf_experts_entries(true), gguf_sigmoid_entries())) entry.read(r);
  r.must_be_one_of("expert_shared_count", {nullptr, 1});
  r.copy_size("expert_shared_feed_forward_length", "moe_shared_expert_intermediate_size");
  if (r.has("moe_latent_size")) r.copy_size("moe_latent_size", "moe_latent_size");
}

// There is no rotation.
void read_gguf_heads(SettingsReader& r) {
  r.copy_size("attention.key_length", "head_dim");
  r.ignore({"rope.dimension_count", "rope.scaling.finetuned", "attention.value_length"});
}

void read_gguf_eps(SettingsReader& r) {
  const char* rms = "attention.layer_norm_rms_epsilon";
  r.copy_number(r.has(rms) ? rms : kLayerNormEps, "rms_norm_eps");
  r.ignore({kLayerNormEps});
}

GgufForm gguf_form() {
  std::map<std::string, std::string> layers =
      gguf_experts({.shared = "shared_experts", .module = "mixer", .gate = nullptr});
  layers.erase("ffn_gate_shexp");
  layers.merge(gguf_mamba("mixer"));
  layers.insert({{"attn_norm", "norm"},
                 {"ffn_norm", ""},
                 {"ffn_gate", ""},
                 {"attn_q", "mixer.q_proj"},
                 {"attn_k", "mixer.k_proj"},
                 {"attn_v", "mixer.v_proj"},
                 {"attn_output", "mixer.o_proj"},
                 {"ffn_up", "mixer.up_proj"},
                 {"ffn_down", "mixer.down_proj"},
                 {"ffn_latent_down", "mixer.fc1_latent_proj"},
                 {"ffn_latent_up", "mixer.fc2_latent_proj"},
                 {"exp_probs_b.bias", "mixer.gate.e_score_correction_bias"}});
  GgufForm form = decoder_gguf(
      {.architecture = "nemotron_h",
       .pre_tokenizer = "pixtral",
       .layers = layers,
       .more = joined(gguf_mamba_entries(), {{.settings = {"layer_types"}, .read = read_gguf_layers},
                                             {.settings = {"num_experts"}, .read = read_gguf_experts}}),
       .flags = {{"mamba_conv_bias", "blk.0.ssm_conv1d.bias"}, {"mamba_proj_bias", "blk.0.ssm_in.bias"}},
       .other_architecture = "nemotron_h_moe",
       .instead = {gguf_layers_entry(),
                   {.settings = {"head_dim"}, .read = read_gguf_heads},
                   {.settings = {"rms_norm_eps"}, .read = read_gguf_eps}},
       .blocks = "backbone.layers."});
  form.outside = {
      {"token_embd", "backbone.embeddings"}, {"output_norm", "backbone.norm_f"}, {"output", "lm_head"}};
  return form;
}

}  // namespace

Family nemotron_h_family() {
  NemotronHConfig standard;
  standard.rms_norm_eps = 1e-5;
  standard.moe_intermediate_size = 256;
  return {.name = "nemotron_h",
          .summary = "Nemotron-H language model: a layer is Mamba2, attention, an MLP or experts",
          .network = make_network(standard, make_nemotron_h),
          .hugging_face = HuggingFaceForm{.model_type = "nemotron_h",
                                          .class_name = "NemotronHForCausalLM",
                                          .config = decoder_config({.vocab_size = 131072,
                                                                    .intermediate_size = 21504,
                                                                    .num_hidden_layers = 4,
                                                                    .num_key_value_heads = 8,
                                                                    .head_dim = 128,
                                                                    .max_position_embeddings = 4096,
                                                                    .norm_eps = 1e-5,
                                                                    .norm_eps_name = "layer_norm_epsilon",
                                                                    .activation_name = "mlp_hidden_act",
                                                                    .activations = {"relu2"}},
                                                                   own_entries()),
                                          .prefix = "backbone.",
                                          .embedding = "backbone.embeddings.weight",
                                          .stacked = stacked_experts({.module = "mixer", .gate = nullptr})},
          .gguf = gguf_form()};
}

}  // namespace genesis::models
