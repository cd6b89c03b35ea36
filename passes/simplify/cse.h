// Common subexpression elimination: nodes with the same op, attributes and inputs give the same values, so
// the first stands for all. Gradient rules compute again what the forward pass already has (exp, rsqrt,
// masks, rope tables), and every layer of a model makes its own positions and masks. Random nodes are
// included: they are functions of the RNG state and their stream number.
#pragma once

#include "passes/core/pass.h"

namespace genesis::passes {

Graph eliminate_common_subexpressions(const Graph& graph, const PassContext& context);

}  // namespace genesis::passes
