// Tensors of a checkpoint that the model has no state for: heads of multi-token prediction, buffers, the other half of a model
// that sees. Used where weights are imported.
#pragma once

#include <string>
#include <vector>

#include "models/hugging_face/checkpoint.h"
#include "schema/graph/model.h"

namespace genesis::models::hugging_face {

// Takes tensors out of `weights` that the model has no state for:
//  - those whose names match one of the patterns `ignored` (`*` and `?`), with a warning for a pattern that matches none;
//  - those of modules that the model does not have at all ("mtp.fc.weight", "model.visual.*"), with a warning that names them,
//    as transformers gives it.
// A tensor inside of the model's own modules stays, for it would change what the model computes: an extra norm, a bias, a layer
// more. Throws Error that lists tensors whose dtype is not supported and which are still there then.
void leave_out_extra_tensors(const Model& model, CheckpointWeights& weights,
                             const std::vector<std::string>& ignored);

}  // namespace genesis::models::hugging_face
