// Checks that a model file can be trained, and that its training can continue from a checkpoint. Commands call them
// before the work.
#pragma once

#include <filesystem>
#include <string>

#include "schema/graph/model.h"

namespace genesis::tools {

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

}  // namespace genesis::tools
