// The passes of this folder: what costs something and gives nothing goes.
#pragma once

#include "passes/core/pass.h"

namespace genesis::passes {

// Common subexpression elimination: nodes with the same op, attributes and inputs give the same values, so
// the first stands for all. Gradient rules compute again what the forward pass already has (exp, rsqrt,
// masks, rope tables), and every layer of a model makes its own positions and masks. Random nodes are
// included: they are functions of the RNG state and their stream number.
Graph eliminate_common_subexpressions(const Graph& graph, const PassContext& context);

// Dead code elimination. Nodes that neither an output nor an update needs cost time and memory; autodiff
// leaves such nodes behind (gradients nobody asked for), and so do rewrites whose last reader went away.
Graph eliminate_dead_code(const Graph& graph, const PassContext& context);

// Constant folding: nodes whose inputs are all known are computed now, once, by the target's own kernels
// (Target::evaluate), and become tensors of the model: tables of positions, masks, scales, weights that are
// only reshaped or cast. Results above PassContext::max_folded_bytes stay as they are, and so do expand, full
// and arange, which a reader makes cheaper than memory delivers them.
Graph fold_constants(const Graph& graph, const PassContext& context);

// Algebraic simplification: many small rewrites, each named and with its algebra above it (simplify_*.cpp).
// Gradient rules and layers are written for clarity and leave x * 1, expansions that broadcasting makes
// anyway, and chains of reshapes and transposes; every later pattern is easier to see without them.
//
// All rewrites keep every bit of every result, NaN, infinities and the sign of zero included. A rewrite sees
// a node as it is about to be added to the new graph, so that one hit makes the next visible.
Graph simplify(const Graph& graph, const PassContext& context);

}  // namespace genesis::passes
