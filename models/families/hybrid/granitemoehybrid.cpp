// Granite 4 (IBM, 2025): most layers have Mamba2 instead of attention; in each, experts beside an MLP that all tokens use, or this one
// alone; the multipliers of Granite 3.
#include <algorithm>
#include <cmath>
#include <utility>

#include "models/config_sizes.h"
#include "models/families/decoder/mamba_config.h"
#include "models/families/decoder/mixture_config.h"

namespace genesis::models {
namespace {

using nlohmann::json;

struct Granite4Config : MixtureConfig, MambaSettings {
  int64_t shared_intermediate_size = 512;
  bool rotates = false;  // attention has a rotary embedding
  double embedding_multiplier = 1;
  double residual_multiplier = 1;   // multiplies what mixer and MLP add
  double attention_multiplier = 1;  // multiplies scores, instead of 1 / sqrt(head size)
  double logits_scaling = 1;        // divides the logits

  static void fields(auto& self, auto&& visit) {
    MixtureConfig::fields(self, visit);
    MambaSettings::fields(self, visit);
    visit("shared_intermediate_size", self.shared_intermediate_size);
    visit("rotates", self.rotates);
    visit("embedding_multiplier", self.embedding_multiplier);
    visit("residual_multiplier", self.residual_multiplier);
    visit("attention_multiplier", self.attention_multiplier);
    visit("logits_scaling", self.logits_scaling);
  }
};

const ExpertsDesign kNames = {.shared = "shared_mlp", .module = "block_sparse_moe", .router = "router.layer"};

std::unique_ptr<Model> make_granite4(const std::string& family, Granite4Config c, uint64_t seed) {
  for (const auto& [name, value] :
       {std::pair("attention_multiplier", c.attention_multiplier), {"logits_scaling", c.logits_scaling}})
    if (!(value > 0)) fail("{}: {} is {}, it must be positive", family, name, value);
  const auto kinds =
      kinds_of_layers(family, mamba_cycle(), std::exchange(c.layer_types, {}), c.num_hidden_layers);
  check_size(family, "shared_intermediate_size", c.shared_intermediate_size);
  ExpertsDesign experts{.count = 0};
  if (c.num_experts > 0) {
    experts = named_like(kNames, c.experts(family));
    experts.scores = RouterScores::kSoftmaxOfChosen;
    experts.shared_size = c.shared_intermediate_size;
    experts.shared = kNames.shared;
  } else {
    c.intermediate_size = c.shared_intermediate_size;
  }
  const MambaDesign mamba = c.mamba(family);
  const auto design_of = [&](int64_t layer) {
    const bool attends = kinds[static_cast<size_t>(layer)] == kAttentionLayer;
    return LayerDesign{.mixer = attends ? MixerKind::kAttention : MixerKind::kMamba2,
                       .rotation = c.rotates ? RotationKind::kRotary : RotationKind::kNone,
                       .score_scale = c.attention_multiplier,
                       .mlp_module = "block_sparse_moe.shared_mlp",
                       .mamba = mamba,
                       .experts = experts,
                       .residual_scale = c.residual_multiplier};
  };
  return make_decoder(family, c, design_of, seed,
                      {.embedding_scale = c.embedding_multiplier, .logits_scale = 1 / c.logits_scaling});
}

ConfigEntry rotation_kind_entry() {
  return {.settings = {"rotates"},
          .read =
              [](SettingsReader& r) {
                r.must_be_one_of("position_embedding_type", {nullptr, "nope", "rope"});
                r.set("rotates", r.get("position_embedding_type") == "rope");
              },
          .write =
              [](const json& settings, json& config) {
                config["position_embedding_type"] = settings.at("rotates") == true ? json("rope") : json();
              }};
}

// There may be none.
ConfigEntry experts_count_entry() {
  return {.settings = {"num_experts"},
          .read =
              [](SettingsReader& r) {
                const json count = r.given("num_local_experts", 8);
                if (count == 0) return r.set("num_experts", 0);
                r.copy_size("num_local_experts", "num_experts", 8);
              },
          .write = [](const json& settings,
                      json& config) { config["num_local_experts"] = settings.at("num_experts"); }};
}

ConfigEntries own_entries() {
  ConfigEntries experts = experts_entries({"num_local_experts"}, 8, 2, 0.001);
  experts.front() = experts_count_entry();
  // An expert has the size intermediate_size.
  experts.push_back({.settings = {"moe_intermediate_size"},
                     .read = [](SettingsReader& r) { r.set("moe_intermediate_size", 0); }});
  return joined(joined(mamba_entries({}), experts),
                {number_entry("embedding_multiplier", 1.0), number_entry("residual_multiplier", 1.0),
                 number_entry("attention_multiplier", 1.0), number_entry("logits_scaling", 1.0),
                 size_entry("shared_intermediate_size", 1024), rotation_kind_entry(),
                 layer_kinds_entry("layer_types", "layers_block_type", mamba_cycle(), kMambaLayer),
                 only_entry("attention_bias", {false}, true),
                 ignored_entry({"normalization_function", "init_method", "router_jitter_noise"})});
}

// llama.cpp takes the usual scale where a file has none.
void read_score_scale(SettingsReader& r) {
  const int64_t head = std::max<int64_t>(1, r.size("head_dim"));
  r.copy_number("attention.scale", "attention_multiplier", 1 / std::sqrt(static_cast<double>(head)));
}

// A layer without heads of keys has Mamba2.
void read_gguf_layers(SettingsReader& r) {
  const json& heads = r.get("attention.head_count_kv");
  const int64_t layers = std::min(r.size("num_hidden_layers"), kMaxLayers);
  if (!heads.is_array() || std::ssize(heads) != layers)
    return r.refuse("attention.head_count_kv", "a number for each layer");
  json kinds = json::array();
  for (const json& count : heads) kinds.push_back(count == 0 ? kMambaLayer : kAttentionLayer);
  read_layer_kinds(r, "attention.head_count_kv", kinds, mamba_cycle());
}

void read_gguf_experts(SettingsReader& r) {
  const bool has_experts = r.integer("expert_count", 0) > 0;
  r.set("num_experts", r.integer("expert_count", 0));
  if (has_experts) r.copy_size("expert_used_count", "num_experts_per_tok");
  r.ignore({"expert_used_count"});
  if (r.has("expert_shared_feed_forward_length"))
    r.copy_size("expert_shared_feed_forward_length", "shared_intermediate_size");
  else
    r.set("shared_intermediate_size", r.size("intermediate_size"));
}

GgufForm gguf_form() {
  std::map<std::string, std::string> layers = gguf_experts(kNames);
  layers.merge(gguf_mamba("mamba"));
  for (const char* part : {"gate", "up", "down"})
    layers[std::string("ffn_") + part] = std::string("block_sparse_moe.shared_mlp.") + part + "_proj";
  return decoder_gguf(
      {.architecture = "granitehybrid",
       .pre_tokenizer = "refact",
       .rows_in_pairs = true,
       .layers = layers,
       .more = joined(gguf_mamba_entries(),
                      {{.settings = {"layer_types"}, .read = read_gguf_layers},
                       {.settings = {"num_experts", "num_experts_per_tok", "shared_intermediate_size"},
                        .read = read_gguf_experts},
                       {.settings = {"rotates"},
                        .read =
                            [](SettingsReader& r) {
                              const json& rotates = r.get("rope.scaling.finetuned");
                              r.set("rotates", !rotates.is_boolean() || rotates == true);
                            }},
                       number_entry("embedding_scale", 1.0, "embedding_multiplier"),
                       number_entry("residual_scale", 1.0, "residual_multiplier"),
                       {.settings = {"attention_multiplier"}, .read = read_score_scale},
                       number_entry("logit_scale", 1.0, "logits_scaling")})});
}

// The names of checkpoints, each with those of the zoo.
const std::vector<FusedWeights> kWeights = {
    {".shared_mlp.input_linear.weight",
     {".block_sparse_moe.shared_mlp.gate_proj.weight", ".block_sparse_moe.shared_mlp.up_proj.weight"}},
    {".shared_mlp.output_linear.weight", {".block_sparse_moe.shared_mlp.down_proj.weight"}},
    {".block_sparse_moe.input_linear.weight",
     {".block_sparse_moe.experts.gate_proj.weight", ".block_sparse_moe.experts.up_proj.weight"}},
    {".block_sparse_moe.output_linear.weight", {".block_sparse_moe.experts.down_proj.weight"}}};

}  // namespace

Family granitemoehybrid_family() {
  return {
      .name = "granitemoehybrid",
      .summary = "Granite 4 language model: Mamba2, some layers with attention, experts beside a shared MLP",
      .network = make_network(Granite4Config{}, make_granite4),
      .hugging_face = HuggingFaceForm{.model_type = "granitemoehybrid",
                                      .class_name = "GraniteMoeHybridForCausalLM",
                                      .config = decoder_config({}, own_entries()),
                                      .fused = kWeights},
      .gguf = gguf_form()};
}

}  // namespace genesis::models
