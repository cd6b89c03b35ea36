// Reduce-on-plateau (optim::PlateauLR): the states of the model that it keeps, and the entry point that a trainer runs with
// every evaluation loss. The rule is that of torch.optim.lr_scheduler.ReduceLROnPlateau with mode "min" and a relative
// threshold. It is part of the graph, so checkpoints contain it and trainers need not know it.
#pragma once

#include <string_view>

#include "schema/graph/model.h"

namespace genesis::optim {

// ReduceLROnPlateau: multiplies the rate by `factor` after more than `patience` evaluations without a loss below the best one
// times (1 - threshold). `cooldown` further evaluations pass before counting starts again. Best loss, counts and rate are
// states of the model, so that a resumed run continues exactly.
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

// The entry point: input "loss" f32[], an evaluation loss; output "lr" f32[], the rate from now on.
inline constexpr const char* kPlateauEntry = "plateau";
// The state f64[] with the current rate.
inline constexpr const char* kPlateauRate = "optimizer.plateau.lr";

// Adds the states "optimizer.plateau.{lr,best,bad,cooldown}" and the entry point. Throws an Error if an entry point of this
// name exists.
void add_plateau(Model& model, const PlateauLR& schedule, double lr);

// Returns the current rate from its state, an f64 scalar.
Value plateau_lr(Graph& graph);

}  // namespace genesis::optim
