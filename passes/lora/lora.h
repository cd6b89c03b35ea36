// LoRA (Hu et al., 2021, arXiv:2106.09685): fine-tuning by low-rank additions to frozen linear layers,
//
//   y = x W^T + bias + alpha / rank * (dropout(x) A^T) B^T,   A [rank, in], B [out, rank]
//
// and of convolutions of one group, whose A is a convolution to `rank` channels and whose B one of single elements, in every entry point of a
// model. A and B are f32 states with the names of PEFT after its prefix "base_model.model.":
// "<layer>.lora_A.weight", initially uniform within 1 / sqrt(in) (Kaiming, a = sqrt(5)), and "<layer>.lora_B.weight", initially
// zero. All other parameters are frozen, so a training step makes no gradient, no moments and no update for them.
//
// A file with adapters also holds the base weights, so checkpoints run by themselves and resume without a second file that
// could have changed. models/formats/hugging_face/adapter saves adapters alone.
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
  double dropout = 0;  // on the input of A, only in entry points whose name begins with "loss"
  // Selects layers by their whole name, by its end behind a '.', or by a pattern with * and ?. Empty: all linear layers except
  // those that share their weight with an embedding and those named lm_head. Convolutions have to be selected.
  std::vector<std::string> targets = {};
  uint64_t seed = 0;  // seed of A's initial values
  // Ranks and alphas of layers that differ from the above, by whole layer name.
  std::map<std::string, int64_t> ranks = {};
  std::map<std::string, double> alphas = {};

  int64_t rank_of(const std::string& layer) const;
  double alpha_of(const std::string& layer) const;
  // Returns alpha / rank of the layer.
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

// Throws an Error for settings out of range, for a target that matches no linear layer (with similar names), for a model that
// already has adapters or a training step, and for one whose layers passes have merged.
void add_lora(Model& model, const LoraOptions& options);

// Returns the settings of a model with adapters; empty if it has none.
std::optional<LoraOptions> lora_of(const Model& model);
// The names of A and B are the layer's name with these suffixes.
inline constexpr std::string_view kLoraA = ".lora_A.weight", kLoraB = ".lora_B.weight";
// Returns whether a state is an A or a B.
bool is_adapter(const State& state);
// Returns the layers with adapters, in the order of their states: "model.layers.0.self_attn.q_proj".
std::vector<std::string> lora_layers(const Model& model);

// Returns the model without adapters and without entry points that train. Its weights are W + alpha / rank B A (added in f32,
// rounded to W's dtype); all but quantized ones are trainable. Throws an Error if the model has no adapters, or if passes have
// changed their nodes beyond recognition.
std::unique_ptr<Model> merge_lora(const Model& model);

}  // namespace genesis::passes
