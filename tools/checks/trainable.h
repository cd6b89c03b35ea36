// Checks that a model file can be trained, and that its training can go on from a checkpoint. Used ahead of
// the work, by `genesis-run train` and `genesis-opt --train`.
#pragma once

#include <filesystem>
#include <string>

#include "schema/graph/model.h"

namespace genesis::tools {

// A model, and the name of its file for messages.
struct NamedModel {
  const Model& model;
  std::string file;
};

// Throws Error where no training step can be made of the entry point `loss`, because the model has none: as after --inference.
void check_has_loss(const NamedModel& named, const std::string& loss);

// Throws Error where the model has no training step, with a way that leads to one.
void check_trainable(const NamedModel& named);

// Throws Error that names the checkpoint and says what differs, where `checkpoint` holds other weights or another loss than
// `named`, or no training step: a training of `named` cannot go on from it. Optimizers and their settings are not compared.
void check_goes_on(const NamedModel& checkpoint, const NamedModel& named);

}  // namespace genesis::tools
