// Reverse-mode differentiation as a graph transformation: gradient nodes are added behind the forward nodes,
// by each op's own gradient rule (schema/ops). Runs first among the passes, so that all later ones also clean
// up and fuse what it adds. A gradient node is named "<forward node>.grad.<op>" and comes from the same
// author's node.
#pragma once

#include "schema/graph/graph.h"

namespace genesis::passes {

// d loss / d wrt[i], in the dtypes of `wrt`. `loss` has one element and is real; `wrt` may be states, inputs
// or any other values. Contributions of several readers are summed in a fixed order; a value that the loss
// does not depend on gets zeros. Throws Error naming the node whose op has no gradient rule.
std::vector<Value> gradients(Graph& graph, Value loss, const std::vector<Value>& wrt);

// The same, with an empty value where the loss does not depend on wrt[i], and not looking behind node
// `first_node` (values made before it are constants unless they are in `wrt`).
std::vector<Value> gradients_if_any(Graph& graph, Value loss, const std::vector<Value>& wrt,
                                    size_t first_node = 0);

}  // namespace genesis::passes
