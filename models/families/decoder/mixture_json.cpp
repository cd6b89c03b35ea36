#include <fmt/format.h>

#include <algorithm>

#include "models/config_sizes.h"
#include "models/families/decoder/mixture_config.h"

namespace genesis::models {

using nlohmann::json;

namespace {

constexpr int kGgufSigmoid = 2;  // expert_gating_func of llama.cpp

ConfigEntry count_entry(const std::vector<std::string>& names, int64_t where_absent) {
  return {.settings = {"num_experts"},
          .read =
              [=](SettingsReader& r) {
                r.ignore(names);
                const auto given =
                    std::ranges::find_if(names, [&](const std::string& name) { return r.has(name); });
                r.copy_size(given == names.end() ? names.front() : *given, "num_experts", where_absent);
              },
          .write = [=](const json& settings,
                       json& config) { config[names.front()] = settings.at("num_experts"); },
          .replaces = names};
}

void read_mlp_layers(SettingsReader& r) {
  const json layers = r.given("mlp_only_layers", json::array());
  const bool are_numbers = layers.is_array() && std::ranges::all_of(layers, [](const json& layer) {
                             return layer.is_number_integer();
                           });
  if (layers.is_null()) return;
  if (!are_numbers) return r.refuse("mlp_only_layers", "a list of layers");
  r.set("mlp_only_layers", layers);
}

}  // namespace

ExpertsDesign MixtureConfig::experts(const std::string& family) const {
  check_size(family, "num_experts", num_experts, kMaxHeads);
  check_size(family, "num_experts_per_tok", num_experts_per_tok, kMaxHeads);
  if (num_experts_per_tok > num_experts)
    fail("{}: num_experts_per_tok is {}, and there are {} experts", family, num_experts_per_tok, num_experts);
  const int64_t size = moe_intermediate_size == 0 ? intermediate_size : moe_intermediate_size;
  check_size(family, "moe_intermediate_size", size);
  if (!(router_aux_loss_coef >= 0))
    fail("{}: router_aux_loss_coef is {}, it must not be negative", family, router_aux_loss_coef);
  if (!(router_z_loss_coef >= 0))
    fail("{}: router_z_loss_coef is {}, it must not be negative", family, router_z_loss_coef);
  return {.count = num_experts,
          .chosen = num_experts_per_tok,
          .intermediate_size = size,
          .balance_loss = output_router_logits ? router_aux_loss_coef : 0,
          .z_loss = router_z_loss_coef};
}

ExpertsDesign SigmoidRouter::routed(const std::string& family, ExpertsDesign experts) const {
  check_size(family, "n_group", n_group, kMaxHeads);
  check_size(family, "topk_group", topk_group, kMaxHeads);
  if (experts.count % n_group != 0 || topk_group > n_group ||
      experts.chosen > experts.count / n_group * topk_group)
    fail("{}: {} of {} groups cannot have {} of {} experts for a token: set n_group and topk_group", family,
         topk_group, n_group, experts.chosen, experts.count);
  if (n_shared_experts < 0 || n_shared_experts > kMaxHeads)
    fail("{}: n_shared_experts is {}, expected 0 to {}", family, n_shared_experts, kMaxHeads);
  if (first_k_dense_replace < 0 || first_k_dense_replace > kMaxLayers)
    fail("{}: first_k_dense_replace is {}, expected 0 to {}", family, first_k_dense_replace, kMaxLayers);
  experts.scores = RouterScores::kSigmoid;
  experts.normalized = norm_topk_prob;
  experts.least_sum = 1e-20;
  experts.factor = routed_scaling_factor;
  experts.groups = n_group;
  experts.chosen_groups = topk_group;
  experts.choice_bias = "gate.e_score_correction_bias";
  experts.shared_size = n_shared_experts * experts.intermediate_size;
  experts.shared = "shared_experts";
  return experts;
}

ConfigEntry whole_number_entry(const std::string& name, int64_t where_absent, bool takes_null) {
  return {.settings = {name},
          .read =
              [=](SettingsReader& r) {
                const json given = r.given(name, where_absent);
                const json value = takes_null && given.is_null() ? json(0) : given;
                if (!value.is_number_integer() || value < 0) return r.refuse(name, "a number, 0 or more");
                r.set(name, value);
              },
          .write = [=](const json& settings, json& config) { config[name] = settings.at(name); }};
}

ConfigEntries sigmoid_router_entries(const SigmoidRouterDefaults& defaults) {
  return {size_entry("moe_intermediate_size", defaults.moe_intermediate_size),
          whole_number_entry("first_k_dense_replace", defaults.first_k_dense_replace),
          whole_number_entry("n_shared_experts", defaults.n_shared_experts),
          size_entry("n_group", defaults.n_group),
          size_entry("topk_group", defaults.topk_group),
          flag_entry("norm_topk_prob", true),
          number_entry("routed_scaling_factor", defaults.routed_scaling_factor),
          only_entry("scoring_func", {"sigmoid"}, false),
          only_entry("topk_method", {"noaux_tc"}, false)};
}

ExpertsDesign named_like(const ExpertsDesign& names, ExpertsDesign experts) {
  experts.module = names.module;
  experts.router = names.router;
  experts.gate = names.gate;
  experts.up = names.up;
  experts.down = names.down;
  experts.choice_bias = names.choice_bias;
  return experts;
}

bool SparseLayers::has_experts(int64_t layer) const {
  if (decoder_sparse_step < 1 || decoder_sparse_step > kMaxLayers)
    fail("decoder_sparse_step is {}, expected 1 to {}", decoder_sparse_step, kMaxLayers);
  return (layer + 1) % decoder_sparse_step == 0 &&
         std::ranges::find(mlp_only_layers, layer) == mlp_only_layers.end();
}

ConfigEntries experts_entries(const std::vector<std::string>& names, int64_t experts, int64_t chosen,
                              double balance_loss) {
  return {count_entry(names, experts),
          size_entry("num_experts_per_tok", chosen),
          number_entry("router_aux_loss_coef", balance_loss),
          flag_entry("output_router_logits", false),
          {.settings = {"router_z_loss_coef"}, .read = [](SettingsReader&) {}, .changes_results = false}};
}

ConfigEntries sparse_layers_entries() {
  return {size_entry("decoder_sparse_step", 1),
          {.settings = {"mlp_only_layers"},
           .read = read_mlp_layers,
           .write = [](const json& settings, json& config) {
             config["mlp_only_layers"] = settings.at("mlp_only_layers");
           }}};
}

std::vector<StackedWeights> stacked_experts(const ExpertsDesign& design) {
  std::vector<StackedWeights> all;
  for (const char* name : {design.gate, design.up, design.down})
    if (name)
      all.push_back({fmt::format(".{}.experts.{}.weight", design.module, name),
                     fmt::format(".{}.experts.", design.module), fmt::format(".{}.weight", name)});
  return all;
}

std::map<std::string, std::string> gguf_experts(const ExpertsDesign& design) {
  const auto below = [&](const char* name) { return fmt::format("{}.{}", design.module, name); };
  const std::string experts = below("experts");
  return {{"ffn_gate_inp", below(design.router)},
          {"ffn_gate_exps", design.has_gate() ? fmt::format("{}.{}", experts, design.gate) : ""},
          {"ffn_up_exps", fmt::format("{}.{}", experts, design.up)},
          {"ffn_down_exps", fmt::format("{}.{}", experts, design.down)},
          {"ffn_gate_shexp", below(design.shared) + ".gate_proj"},
          {"ffn_up_shexp", below(design.shared) + ".up_proj"},
          {"ffn_down_shexp", below(design.shared) + ".down_proj"}};
}

ConfigEntries gguf_experts_entries(bool has_size) {
  ConfigEntries entries = {size_entry("expert_count", {}, "num_experts"),
                           size_entry("expert_used_count", {}, "num_experts_per_tok")};
  if (has_size) entries.push_back(size_entry("expert_feed_forward_length", {}, "moe_intermediate_size"));
  return entries;
}

ConfigEntries gguf_sigmoid_entries() {
  return {number_entry("expert_weights_scale", 1.0, "routed_scaling_factor"),
          {.settings = {"norm_topk_prob"},
           .read = [](SettingsReader& r) { r.copy_flag("expert_weights_norm", "norm_topk_prob", false); }},
          size_entry("expert_group_count", 1, "n_group"),
          size_entry("expert_group_used_count", 1, "topk_group"),
          {.settings = {}, .read = [](SettingsReader& r) {
             r.must_be_one_of("expert_gating_func", {nullptr, kGgufSigmoid});
           }}};
}

ConfigEntry gguf_shared_expert_entry() {
  return {.settings = {"shared_expert_intermediate_size"}, .read = [](SettingsReader& r) {
            r.copy_size("expert_shared_feed_forward_length", "shared_expert_intermediate_size",
                        r.size("moe_intermediate_size"));
          }};
}

ConfigEntries gguf_shared_entries() {
  return {gguf_count_entry("leading_dense_block_count", "first_k_dense_replace"),
          gguf_count_entry("expert_shared_count", "n_shared_experts")};
}

}  // namespace genesis::models
