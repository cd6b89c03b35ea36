// Stochastic depth (Huang et al., 2016) under torchvision's name: a residual branch is left out at random in training.
//
//     x = x + nn::StochasticDepth(scope / "stochastic_depth", 0.1)(block(x));
#pragma once

#include "builder/module.h"

namespace genesis::nn {

// In training x [batch, ...] becomes 0 with probability p, else x / (1 - p): for each entry of the batch by itself ("row"), or for all of
// them at once ("batch"). Otherwise x stays as it is. Throws Error for a p outside [0, 1] or another mode.
class StochasticDepth : public Module<StochasticDepth> {
 public:
  StochasticDepth(const Scope& scope, double p, const std::string& mode = "row");
  Value forward(Value x) const;

 private:
  double p_;
  bool by_row_;
  Parameter rng_;
};

}  // namespace genesis::nn
