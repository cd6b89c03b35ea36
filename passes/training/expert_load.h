// Statistics of mixtures of experts in training: how many of the pairs of a token and an expert each expert gets.
#pragma once

#include <string>

#include "schema/graph/model.h"

namespace genesis::passes {

inline constexpr char kExpertLoad[] = "expert_load";

// Adds the output "expert_load" to an entry point, such as the loss before a training step is made of it: f32 [layers, experts], the
// share of each expert in the pairs of its layer, so that the numbers of a layer add up to 1. The training step then has it, too: the
// mean over micro-batches and ranks. Layers are those with experts, in their order. Nothing changes if the entry point has the output.
// Throws an Error if there are no experts, or if layers have different numbers of experts.
void add_expert_load(Model& model, const std::string& entry = "loss");

}  // namespace genesis::passes
