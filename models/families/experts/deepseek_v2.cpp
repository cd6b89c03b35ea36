// DeepSeek-V2 and V2-Lite (2024): latent attention as in DeepSeek-V3, and experts chosen by a softmax, by setting within the groups that
// have the best experts, beside the shared ones.
#include "models/config_sizes.h"
#include "models/families/decoder/latent_config.h"
#include "models/families/decoder/mixture_config.h"

namespace genesis::models {
namespace {

struct DeepseekV2Config : MixtureConfig, LatentConfig {
  int64_t first_k_dense_replace = 1;
  int64_t n_shared_experts = 1;
  int64_t n_group = 0, topk_group = 0;  // 0: there are no groups
  bool limits_groups = false;           // experts of a token are of topk_group groups
  double routed_scaling_factor = 1;

  static void fields(auto& self, auto&& visit) {
    MixtureConfig::fields(self, visit);
    LatentConfig::fields(self, visit);
    visit("first_k_dense_replace", self.first_k_dense_replace);
    visit("n_shared_experts", self.n_shared_experts);
    visit("n_group", self.n_group);
    visit("topk_group", self.topk_group);
    visit("limits_groups", self.limits_groups);
    visit("routed_scaling_factor", self.routed_scaling_factor);
  }
  // Returns the experts, with the checks of DeepSeek-V3's.
  ExpertsDesign routed(const std::string& family) const {
    if (n_group != 0) check_size(family, "n_group", n_group);
    if (topk_group != 0) check_size(family, "topk_group", topk_group);
    const SigmoidRouter same = {.first_k_dense_replace = first_k_dense_replace,
                                .n_shared_experts = n_shared_experts,
                                .n_group = limits_groups ? n_group : 1,
                                .topk_group = limits_groups ? topk_group : 1,
                                .norm_topk_prob = false,
                                .routed_scaling_factor = routed_scaling_factor};
    ExpertsDesign experts = same.routed(family, MixtureConfig::experts(family));
    experts.scores = RouterScores::kSoftmax;
    experts.choice_bias = nullptr;
    experts.best_of_group = 1;
    return experts;
  }
};

std::unique_ptr<Model> make_deepseek_v2(const std::string& family, const DeepseekV2Config& c, uint64_t seed) {
  const ExpertsDesign experts = c.routed(family);
  LayerDesign design = c.layer(family, c, RopeKind::kInterleaved);
  const auto design_of = [&](int64_t layer) {
    design.experts = layer < c.first_k_dense_replace ? ExpertsDesign{} : experts;
    return design;
  };
  return make_decoder(family, c.with_rotating_heads(family, c), design_of, seed);
}

// A number that is null where there are no groups.
ConfigEntry groups_entry(const std::string& name) {
  return {.settings = {name},
          .read =
              [=](SettingsReader& r) {
                const nlohmann::json value = r.given(name, nlohmann::json());
                if (value.is_null()) return r.set(name, 0);
                if (!value.is_number_integer() || value < 0)
                  return r.refuse(name, "a number, 0 or more, or null");
                r.set(name, value);
              },
          .write =
              [=](const nlohmann::json& settings, nlohmann::json& config) {
                config[name] = settings.at(name) == 0 ? nlohmann::json() : settings.at(name);
              }};
}

ConfigEntry method_entry() {
  return {.settings = {"limits_groups"},
          .read =
              [](SettingsReader& r) {
                const nlohmann::json method = r.given("topk_method", "greedy");
                if (method != "greedy" && method != "group_limited_greedy")
                  return r.refuse("topk_method", "greedy or group_limited_greedy");
                r.set("limits_groups", method != "greedy");
              },
          .write =
              [](const nlohmann::json& settings, nlohmann::json& config) {
                config["topk_method"] =
                    settings.at("limits_groups") == true ? "group_limited_greedy" : "greedy";
              }};
}

// The class reads norm_topk_prob, and does not use it.
ConfigEntries router_entries() {
  return {size_entry("moe_intermediate_size", 1407),
          whole_number_entry("first_k_dense_replace", 0),
          whole_number_entry("n_shared_experts", 2),
          groups_entry("n_group"),
          groups_entry("topk_group"),
          method_entry(),
          number_entry("routed_scaling_factor", 1.0),
          only_entry("mlp_bias", {false}, false),
          only_entry("scoring_func", {"softmax"}, false),
          ignored_entry({"norm_topk_prob"})};
}

// Files with groups are of models whose routers choose groups.
void read_gguf_groups(SettingsReader& r) {
  const int64_t groups = r.integer("expert_group_count", 1), chosen = r.integer("expert_group_used_count", 1);
  if (groups < 1 || chosen < 1 || chosen > groups)
    return r.refuse("expert_group_used_count", "1 to expert_group_count");
  r.set("limits_groups", groups > 1);
  r.set("n_group", groups > 1 ? groups : 0);
  r.set("topk_group", groups > 1 ? chosen : 0);
}

GgufForm gguf_form() {
  DecoderGguf form = latent_gguf("");
  form.layers.merge(gguf_experts({.shared = "shared_experts"}));
  const ConfigEntries router = {number_entry("expert_weights_scale", 1.0, "routed_scaling_factor"),
                                {.settings = {"n_group"}, .read = read_gguf_groups},
                                {.settings = {}, .read = [](SettingsReader& r) {
                                   r.must_be_one_of("expert_weights_norm", {nullptr, false});
                                   r.must_be_one_of("expert_gating_func", {nullptr, 0, 1});
                                 }}};
  form.more = joined(form.more, joined(joined(gguf_experts_entries(true), router), gguf_shared_entries()));
  return decoder_gguf(form);
}

}  // namespace

Family deepseek_v2_family() {
  DeepseekV2Config standard;
  standard.moe_intermediate_size = 256;
  return {
      .name = "deepseek_v2",
      .summary =
          "DeepSeek-V2 language model: latent attention with a compressed cache, shared experts and those of "
          "a softmax",
      .network = make_network(standard, make_deepseek_v2),
      .hugging_face =
          HuggingFaceForm{.model_type = "deepseek_v2",
                          .class_name = "DeepseekV2ForCausalLM",
                          .config = joined(
                              joined(decoder_config({.vocab_size = 102400,
                                                     .hidden_size = 4096,
                                                     .intermediate_size = 11008,
                                                     .num_hidden_layers = 32,
                                                     .num_attention_heads = 32,
                                                     .max_position_embeddings = 2048},
                                                    latent_entries()),
                                     experts_entries({"n_routed_experts", "num_local_experts", "num_experts"},
                                                     64, 6, 0.001)),
                              router_entries()),
                          .stacked = stacked_experts()},
      .gguf = gguf_form()};
}

}  // namespace genesis::models
