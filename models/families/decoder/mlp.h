// The MLPs of decoders.
#pragma once

#include "builder/containers.h"
#include "builder/init.h"
#include "builder/scope.h"
#include "models/families/decoder/design.h"

namespace genesis::models {

// Makes an MLP of [..., hidden_size] below `scope`.
nn::Layer make_mlp(const Scope& scope, int64_t hidden_size, int64_t intermediate_size,
                   const LayerDesign& design, const init::Init& init);

}  // namespace genesis::models
