// What reduce-on-plateau (optim::PlateauLR) remembers, as states of the model, and the entry point that a trainer runs
// with every evaluation loss. The rule is torch.optim.lr_scheduler.ReduceLROnPlateau's with mode "min" and a relative
// threshold; it stands in a graph, so a checkpoint has all of it and no trainer has to know it.
#pragma once

#include <string_view>

#include "schema/graph/model.h"

namespace genesis::optim {

// ReduceLROnPlateau: the rate is multiplied by `factor` when the evaluation loss has not fallen by more than the share
// `threshold` of its best for more than `patience` evaluations, which are counted again after `cooldown` further ones.
// Best, counts and rate are states of the model, so that a resumed run goes on exactly.
struct PlateauLR {
  static constexpr std::string_view kName = "plateau";
  double factor = 0.1;
  int64_t patience = 10;
  double threshold = 1e-4;
  int64_t cooldown = 0;
  double min_lr = 0;
  int64_t warmup = 0;
  static void fields(auto& self, auto&& visit) {
    visit("factor", self.factor);
    visit("patience", self.patience);
    visit("threshold", self.threshold);
    visit("cooldown", self.cooldown);
    visit("min_lr", self.min_lr);
    visit("warmup", self.warmup);
  }
};

// Of the entry point: input "loss" f32[], an evaluation loss; output "lr" f32[], the rate from now on.
inline constexpr const char* kPlateauEntry = "plateau";
// The state f64[] that has the rate as it is now.
inline constexpr const char* kPlateauRate = "optimizer.plateau.lr";

// Adds the states "optimizer.plateau.{lr,best,bad,cooldown}" and the entry point. Throws Error when an entry point of
// this name is there.
void add_plateau(Model& model, const PlateauLR& schedule, double lr);

// The rate that the states say, an f64 scalar.
Value plateau_lr(Graph& graph);

}  // namespace genesis::optim
