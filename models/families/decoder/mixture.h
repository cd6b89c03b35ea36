// The mixture of experts of decoders. A router chooses some experts for each token. The pairs of a token and an expert are sorted by
// expert, so that each expert's products are those of adjacent rows (grouped_matmul), and no token is left out.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "builder/genesis.h"
#include "models/families/decoder/design.h"

namespace genesis::models {

// The choice of one layer for the tokens of one run, for losses of routers.
struct Routing {
  Value logits;                 // f32 [batch, time, experts]: the router's numbers
  Value counts;                 // i64 [experts]: tokens that chose the expert
  double balance_loss, z_loss;  // factors
};
// The routing of all layers, in their order. Layers add to it; who begins a graph clears it.
using RoutingLog = std::shared_ptr<std::vector<Routing>>;

// Returns the losses of all layers, f32[], times their factors; empty if no layer has one. The loss that balances experts is that of
// Switch Transformers as transformers computes it: experts * sum over the experts of the share of pairs, times the mean
// probability. The z-loss is the mean over tokens and layers of the squared logarithm of the router's sum of exponentials (Zoph et
// al., "ST-MoE", 2022).
Value router_loss(const std::vector<Routing>& layers);

class Mixture : public nn::Module<Mixture> {
 public:
  Mixture(const Scope& scope, int64_t hidden_size, const ExpertsDesign& design, const init::Init& init,
          RoutingLog log);
  Value forward(Value x) const;  // [batch, time, hidden_size]

 private:
  struct Choice {
    Value experts, factors;  // [batch, time, chosen]; factors are f32
  };
  struct Pairs;
  static Pairs sorted_by_expert(Value chosen, int64_t experts);
  Value routed(Value x) const;
  Choice choose(Value logits) const;
  Value within_groups(Value scores) const;
  Value normalized(Value factors) const;
  Value weigh(Value pairs, Value factors) const;
  Value multiply(Value rows, const Parameter& weights, const Parameter& biases, const Pairs& pairs) const;
  Value gated(Value gate, Value up) const;
  Routing routing_of(Value logits, const Pairs& pairs) const;

  ExpertsDesign design_;
  nn::Linear router_;
  Parameter router_scale_, expert_scales_, choice_bias_, gate_, up_, down_, gate_biases_, up_biases_,
      down_biases_;
  std::optional<nn::Layer> shared_, read_norm_;
  std::optional<nn::Linear> shared_gate_, latent_in_, latent_out_;
  RoutingLog log_;
};

}  // namespace genesis::models
