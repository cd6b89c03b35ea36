// Gives a model of the zoo the weights of a file whose tensors have the names of its states, such as one of model.state_dict().
#pragma once

#include <string>
#include <vector>

#include "schema/graph/model.h"

namespace genesis::models {

// Sets every parameter and buffer from the .safetensors `file`, converted to its dtype. Tensors whose names match one of the patterns
// `ignored` (* and ?) are left out, and the states of these names keep their initial values. So are counters of batches and tables of
// places (num_batches_tracked, relative_position_index), which nothing computes with here. Throws Error that lists the tensors that
// are missing, have another shape, or belong to no state.
void load_weights(Model& model, const std::string& file, const std::vector<std::string>& ignored = {});

}  // namespace genesis::models
