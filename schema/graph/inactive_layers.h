// Records layers that act only in training, such as dropout, for entry points that were built for evaluation: there they are the
// identity and leave no node. The model's metadata stores them, so that add_train_step can warn that a loss would be trained
// without them.
#pragma once

#include <string>

#include "schema/graph/model.h"

namespace genesis {

// `layer` is the layer's name in the warning. Only the first layer of an entry point is recorded.
void note_inactive_layer(Graph& graph, const std::string& layer);
// Returns an empty string if the entry point has none.
std::string inactive_layer(const Model& model, const std::string& entry);
// Removes the record of an entry point that is built anew.
void forget_inactive_layers(Model& model, const std::string& entry);

}  // namespace genesis
