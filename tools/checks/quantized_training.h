// Checks the training of a model whose weights are quantized (q8 or q4, which training does not change) or have 16
// bits, which cannot hold small updates. The user may not know of either.
#pragma once

#include "schema/graph/model.h"

namespace genesis::tools {

// Call it before a training step is added and after adapters are added. Warns of quantized weights that no step will
// change, and of weights in bf16 or f16 that it will change. Throws Error if only vectors (norms and biases) would be
// trained. Models with adapters pass without a warning.
void check_quantized_training(const Model& model);

}  // namespace genesis::tools
