// Layers that act while training alone, such as dropout, in entry points that were built for evaluation, where they are the
// identity and leave no node. The model's metadata remembers them, so that add_train_step can warn of a loss that would be
// trained without them. Written by builder/, read by passes/training.
#pragma once

#include <string>

#include "schema/graph/model.h"

namespace genesis {

// `layer`: what the warning calls it. The first of an entry point is kept.
void note_inactive_layer(Graph& graph, const std::string& layer);
// Empty where the entry point has none.
std::string inactive_layer(const Model& model, const std::string& entry);
// For an entry point that is built anew.
void forget_inactive_layers(Model& model, const std::string& entry);

}  // namespace genesis
