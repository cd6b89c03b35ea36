// What reduce-on-plateau (optim::PlateauLR) remembers, as states of the model, and the entry point that a trainer runs
// with every evaluation loss. The rule is torch.optim.lr_scheduler.ReduceLROnPlateau's with mode "min" and a relative
// threshold; it stands in a graph, so a checkpoint has all of it and no trainer has to know it.
#pragma once

#include "passes/training/schedules.h"
#include "schema/graph/model.h"

namespace genesis::optim {

// Of the entry point: input "loss" f32[], an evaluation loss; output "lr" f32[], the rate from now on.
inline constexpr const char* kPlateauEntry = "plateau";

// Adds the states "optimizer.plateau.{lr,best,bad,cooldown}" and the entry point. Throws Error when an entry point of
// this name is there.
void add_plateau(Model& model, const PlateauLR& schedule, double lr);

// The rate that the states say, an f64 scalar.
Value plateau_lr(Graph& graph);

}  // namespace genesis::optim
