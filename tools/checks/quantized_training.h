// Training of a model whose weights are kept as q8 or q4 and stay as they are, or in 16 bits, which hold no small update:
// whoever asks for it may not know.
#pragma once

#include "schema/graph/model.h"

namespace genesis::tools {

// Called before a training step is added, once adapters are there. Warns of quantised weights that no step will change, and of
// weights in bf16 or f16 that it will; throws Error where nothing but vectors, norms and biases, would be trained. Says nothing of models with adapters.
void check_quantized_training(const Model& model);

}  // namespace genesis::tools
