// Puts the formula of an op in the place of a node: the op written with other ops, as its rules may have it (schema/graph/op.h). So
// an op of a plugin fuses with the library's own, and one with a formula alone runs on every device.
#pragma once

#include <functional>

#include "passes/core/pass.h"

namespace genesis::passes {

// Replaces the nodes that `chosen` is true for, as far as their ops have formulas, and likewise the nodes of these formulas. Throws
// Error as write_formula does (passes/core/formula.h).
Graph write_formulas(const Graph& graph, const std::function<bool(const Graph&, const Node&)>& chosen);

// Replaces the nodes that the target has no kernel for, as far as their ops have formulas. Changes nothing without a target, or where
// sizes are open. Throws Error as write_formulas does.
Graph expand_formulas(const Graph& graph, const PassContext& context);

// Replaces a node whose formula as a whole becomes part of one fused kernel, together with nodes around it: the node's own kernel
// would read and write memory that the fused one does not. A node that stands alone keeps its kernel. Whether the kernel is made is
// the choice of fuse_elementwise, which declines a region that the target has no kernel for: then the nodes of the formula run one
// by one. Without fuse_elementwise in a pipeline, this pass is of no use, either.
Graph fuse_formulas(const Graph& graph, const PassContext& context);

// Returns whether an op of the graph has a formula.
bool has_formulas(const Graph& graph, const PassContext& context);

}  // namespace genesis::passes
