// Checks that a model can be trained, and that its training can continue from a checkpoint. Jobs call them before the work.
#pragma once

#include <filesystem>
#include <string>

#include "schema/graph/model.h"

namespace genesis::jobs {

// A model together with its file name, for messages.
struct NamedModel {
  const Model& model;
  std::string file;
};

// Throws Error if the model has no entry point `loss` to make a training step of, as after --inference.
void check_has_loss(const NamedModel& named, const std::string& loss);

// Throws Error if the model has no training step. The message says how to add one.
void check_trainable(const NamedModel& named);

// Throws Error if training of `named` cannot continue from `checkpoint`, because the checkpoint has other weights,
// another loss or no training step. The message names the checkpoint and the difference. Optimizers and their
// settings are not compared.
void check_goes_on(const NamedModel& checkpoint, const NamedModel& named);

// Checks a model whose weights are quantized (q8, q4 or q4m, which training does not change) or have 16 bits, which cannot hold
// small updates. The user may not know of either. Call it before a training step is added and after adapters are added. Warns of
// quantized weights that no step will change, and of weights in bf16 or f16 that it will change. Throws Error if only vectors
// (norms and biases) would be trained. Models with adapters pass without a warning.
void check_quantized_training(const Model& model);

// Warns of what an export has taken from a program that is to be trained, whose loss was added to its entry point `forward`: batch
// norms whose running statistics stay as they are, or that were folded into convolutions.
void warn_of_export(const Model& model);

}  // namespace genesis::jobs
