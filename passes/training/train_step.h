// Makes the entry point `train_step` out of `loss`: forward, backward, clipping, optimizer and schedule in one graph, so that
// one run is one training step and the model's states hold everything that it needs. It is saved in the model's file.
//
// Outputs: loss (before the step); grad_norm (of all gradients together, before clipping by norm); lr; for f16 also loss_scale
// and skipped_steps (skipped in a row, including this one; a skipped step changes no parameter, no optimizer state and no
// buffer, and does not count); and the outputs of `loss` besides the loss, such as an accuracy, also before the step
// (step_outputs.h says how micro-batches and ranks are combined).
// The rate that the schedule starts from is a state too ("optimizer.lr", schedules.h), so that it can be set between steps.
// Updates: the trained parameters, the optimizer's states ("optimizer.<parameter>.m", "optimizer.step"), every state that the
// loss updates (running statistics), and the RNG. Parameters that the loss does not depend on are not updated.
#pragma once

#include "passes/core/pass.h"
#include "passes/training/train_options.h"
#include "schema/graph/model.h"

namespace genesis::passes {

// Prepares options.entry by preparation_pipeline(), whose passes replace ops that the author composed of others, then calls
// add_train_step. Authors call this, and so does genesis-opt --train.
//
//     passes::add_training(model, {.optimizer = optim::AdamW{.lr = 1e-2}, .clip = 1.0});
void add_training(Model& model, const TrainOptions& options = {}, const PipelineOptions& pipeline = {});

// Adds the entry point alone, for options.entry as it is. With accumulate = N the inputs that have the first input's leading
// size hold N micro-batches one after the other ([N*batch, ...]); losses and gradients are averaged over them, and states
// (running statistics, RNG) pass from one to the next. Throws an Error that names the option, entry point, output or parameter
// that does not fit.
void add_train_step(Model& model, const TrainOptions& options = {});

}  // namespace genesis::passes
