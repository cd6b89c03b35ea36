// The settings that all decoders with experts have, and how their tables say them: config.json, GGUF metadata, names of tensors.
#pragma once

#include <string>
#include <vector>

#include "models/families/decoder/config.h"
#include "models/families/decoder/family.h"

namespace genesis::models {

struct MixtureConfig : DecoderConfig {
  int64_t num_experts = 8;
  int64_t num_experts_per_tok = 2;
  int64_t moe_intermediate_size = 0;  // size of an expert; 0: intermediate_size
  double router_aux_loss_coef = 0.001;
  bool output_router_logits = false;  // adds the loss that balances experts to the loss of tokens
  double router_z_loss_coef = 0;      // adds the loss that keeps the router's numbers small

  static void fields(auto& self, auto&& visit) {
    DecoderConfig::fields(self, visit);
    visit("num_experts", self.num_experts);
    visit("num_experts_per_tok", self.num_experts_per_tok);
    visit("moe_intermediate_size", self.moe_intermediate_size);
    visit("router_aux_loss_coef", self.router_aux_loss_coef);
    visit("output_router_logits", self.output_router_logits);
    visit("router_z_loss_coef", self.router_z_loss_coef);
  }
  // Returns experts with these sizes, chosen by a softmax. Throws Error that names the family and the setting if sizes are invalid.
  ExpertsDesign experts(const std::string& family) const;
};

// Settings of families of which some layers have an MLP: those listed, and all but each `decoder_sparse_step`-th.
struct SparseLayers {
  int64_t decoder_sparse_step = 1;
  std::vector<int64_t> mlp_only_layers = {};

  static void fields(auto& self, auto&& visit) {
    visit("decoder_sparse_step", self.decoder_sparse_step);
    visit("mlp_only_layers", self.mlp_only_layers);
  }
  bool has_experts(int64_t layer) const;
};

// Settings of the router of DeepSeek-V3 and the families like it: sigmoid scores, a bias for the choice, groups, shared experts, and
// first layers with an MLP.
struct SigmoidRouter {
  int64_t first_k_dense_replace = 1;
  int64_t n_shared_experts = 1;
  int64_t n_group = 1, topk_group = 1;
  bool norm_topk_prob = true;  // the factors of a token's experts add up to 1, before they are scaled
  double routed_scaling_factor = 1;

  static void fields(auto& self, auto&& visit) {
    visit("first_k_dense_replace", self.first_k_dense_replace);
    visit("n_shared_experts", self.n_shared_experts);
    visit("n_group", self.n_group);
    visit("topk_group", self.topk_group);
    visit("norm_topk_prob", self.norm_topk_prob);
    visit("routed_scaling_factor", self.routed_scaling_factor);
  }
  // Returns the experts with this router. Throws Error that names the family and the setting if settings contradict each other.
  ExpertsDesign routed(const std::string& family, ExpertsDesign experts) const;
};

// The values that a class takes for absent entries of SigmoidRouter and of the size of its experts.
struct SigmoidRouterDefaults {
  int64_t moe_intermediate_size = 2048, first_k_dense_replace = 3, n_shared_experts = 1, n_group = 1,
          topk_group = 1;
  double routed_scaling_factor = 1;
};
// Reads a count, 0 or more. `takes_null`: null means 0.
ConfigEntry whole_number_entry(const std::string& name, int64_t where_absent, bool takes_null = false);
ConfigEntries sigmoid_router_entries(const SigmoidRouterDefaults& defaults);

// Returns `experts` with the names of modules that `names` has.
ExpertsDesign named_like(const ExpertsDesign& names, ExpertsDesign experts);

// Returns the entries of the number of experts, known by one of `names` (the first is written), and of the loss that balances them.
ConfigEntries experts_entries(const std::vector<std::string>& names, int64_t experts, int64_t chosen,
                              double balance_loss);
// Returns the entries of SparseLayers.
ConfigEntries sparse_layers_entries();

// Returns the tensors of a folder whose experts are "LAYER.module.experts.0.gate.weight"; see ExpertsDesign for the names.
std::vector<StackedWeights> stacked_experts(const ExpertsDesign& design = {});

// The names of tensors of experts in GGUF files, to be added to DecoderGguf::layers.
std::map<std::string, std::string> gguf_experts(const ExpertsDesign& design = {});
// The GGUF metadata of experts. `has_size`: the size of an expert is expert_feed_forward_length, not feed_forward_length.
ConfigEntries gguf_experts_entries(bool has_size);
// The GGUF metadata of a router with sigmoid scores, groups and a scale: norm_topk_prob, routed_scaling_factor, n_group and
// topk_group of SigmoidRouter.
ConfigEntries gguf_sigmoid_entries();
// The GGUF metadata of shared_expert_intermediate_size, which is that of the other experts where a file does not say it.
ConfigEntry gguf_shared_expert_entry();
// The matrices of gate and up of all experts, which some files hold as one.
inline const FusedWeights kFusedExperts = {".experts.gate_up_proj.weight",
                                           {".experts.gate_proj.weight", ".experts.up_proj.weight"}};
// The GGUF metadata of first_k_dense_replace and n_shared_experts.
ConfigEntries gguf_shared_entries();

}  // namespace genesis::models
