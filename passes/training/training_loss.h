// The graph that a training step differentiates and an evaluation measures.
#pragma once

#include "passes/training/train_options.h"
#include "schema/graph/model.h"

namespace genesis::passes {

// The entry point as authored, or the same in low precision. Throws Error naming what keep_f32 names in vain.
Graph training_loss(Model& model, const TrainOptions& options);

}  // namespace genesis::passes
