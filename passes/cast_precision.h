// A model for inference in bf16 or f16: half the bytes to read for every weight and cached key, and faster
// matrix products where the hardware has them. Each op keeps the precision its class (OpInfo::precision) asks
// for: products, moves and norms take low precision (norms and softmax still compute in f32 inside), losses
// and long sums stay f32, integers and random numbers are untouched. Inputs and outputs of entry points keep
// their types.
#pragma once

#include <memory>

#include "schema/model.h"

namespace genesis::passes {

// States and tensors of f32 become `low`. Throws Error when an entry point trains: optimizers need f32
// parameters.
std::unique_ptr<Model> cast_precision(const Model& model, DType low);

}  // namespace genesis::passes
