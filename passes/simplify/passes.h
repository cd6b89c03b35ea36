// The passes of this folder remove work that does not change any result.
#pragma once

#include "passes/core/pass.h"

namespace genesis::passes {

// Common subexpression elimination: nodes with the same op, attributes and inputs give the same values, so the first replaces
// the others. Gradient rules compute again what the forward pass already has (exp, rsqrt, masks, rope tables), and every layer
// of a model makes its own positions and masks. Random nodes are included: they are functions of the RNG state and their stream
// number.
Graph eliminate_common_subexpressions(const Graph& graph, const PassContext& context);

// Dead code elimination: removes the nodes that neither an output nor an update needs. Autodiff leaves such nodes behind
// (gradients that nothing reads), and so do rewrites that remove the last reader.
Graph eliminate_dead_code(const Graph& graph, const PassContext& context);

// Constant folding: computes nodes whose inputs are all known once, by the target's own kernels (Target::evaluate), and stores
// the results as tensors of the model: position tables, masks, scales, weights that are only reshaped or cast. Results above
// PassContext::max_folded_bytes are not folded, nor are expand, full and arange, which a reader computes faster than memory
// delivers them.
Graph fold_constants(const Graph& graph, const PassContext& context);

// Algebraic simplification: many small named rewrites, each with its algebra above it (simplify_*.cpp). Gradient rules and
// layers are written for clarity and leave x * 1, expansions that broadcasting makes anyway, and chains of reshapes and
// transposes; later patterns are easier to match without them.
//
// All rewrites keep every bit of every result, including NaN, infinities and the sign of zero. A rewrite sees a node just
// before it is added to the new graph, so that one hit makes the next one visible.
Graph simplify(const Graph& graph, const PassContext& context);

}  // namespace genesis::passes
