// LoRA (Hu et al., 2021, arXiv:2106.09685): fine-tuning by low-rank additions to frozen linear layers,
//
//   y = x W^T + bias + alpha / rank * (dropout(x) A^T) B^T,   A [rank, in], B [out, rank]
//
// in every entry point of a model. A and B are f32 states with the names of PEFT behind its "base_model.model.":
// "<layer>.lora_A.weight", uniform within 1 / sqrt(in) at first (Kaiming, a = sqrt(5)), and "<layer>.lora_B.weight", zeros.
// All other parameters are frozen, so a training step makes no gradient, no moments and no update for them.
//
// A file with adapters is a model like any other: it holds the base weights too, so checkpoints run by themselves and
// resume without a second file that could have changed. To hand on the adapters alone there is models/hugging_face/adapter.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "schema/graph/model.h"

namespace genesis::passes {

struct LoraOptions {
  int64_t rank = 16;
  double alpha = 32;
  double dropout = 0;  // of what A reads, in entry points `loss...` alone
  // Layers by name: their whole name, its end behind a '.', or a pattern with * and ?. Empty: all linear layers but those
  // whose weight is an embedding's too and those named lm_head.
  std::vector<std::string> targets = {};
  uint64_t seed = 0;  // of A
  // Layers whose rank or alpha is another, by their whole name.
  std::map<std::string, int64_t> ranks = {};
  std::map<std::string, double> alphas = {};

  int64_t rank_of(const std::string& layer) const;
  double alpha_of(const std::string& layer) const;
  // alpha / rank of the layer.
  double scale_of(const std::string& layer) const;

  static void fields(auto& self, auto&& visit) {
    visit("rank", self.rank);
    visit("alpha", self.alpha);
    visit("dropout", self.dropout);
    visit("targets", self.targets);
    visit("seed", self.seed);
    visit("ranks", self.ranks);
    visit("alphas", self.alphas);
  }
};

// Throws Error for settings out of range, for a target that names no linear layer (and which come near), for a model that
// has adapters or a training step already, and for one whose layers passes have merged.
void add_lora(Model& model, const LoraOptions& options);

// The settings of a model with adapters; empty: it has none.
std::optional<LoraOptions> lora_of(const Model& model);
// How the names of A and B end, behind that of their layer.
inline constexpr std::string_view kLoraA = ".lora_A.weight", kLoraB = ".lora_B.weight";
// Whether a state is an A or a B.
bool is_adapter(const State& state);
// Its layers with adapters, in the order of their states: "model.layers.0.self_attn.q_proj".
std::vector<std::string> lora_layers(const Model& model);

// The model without adapters, whose weights are W + alpha / rank B A (added in f32, rounded to W's dtype), all of them
// trainable but those that stay quantized; without entry points that train. Throws Error when the model has no adapters, and when
// passes have made something of them that this does not know.
std::unique_ptr<Model> merge_lora(const Model& model);

}  // namespace genesis::passes
