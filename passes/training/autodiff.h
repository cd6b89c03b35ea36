// Reverse-mode differentiation as a graph transformation: adds gradient nodes behind the forward nodes by each op's own
// gradient rule (schema/ops), or by that of its formula. It runs before most passes, so that they also clean up and fuse what it adds. A gradient node is
// named "<forward node>.grad.<op>" and has the same origins as its forward node.
#pragma once

#include "schema/graph/graph.h"

namespace genesis::passes {

// Returns d loss / d wrt[i], in the dtypes of `wrt`. `loss` is floating-point and has one element; `wrt` may be states, inputs
// or any other values. Contributions of several readers are summed in a fixed order; a value that the loss does not depend on
// gets zeros. Throws an Error that names the node whose op has neither a gradient rule nor a formula.
std::vector<Value> gradients(Graph& graph, Value loss, const std::vector<Value>& wrt);

// Does the same, but returns an empty value if the loss does not depend on wrt[i], and does not look at nodes before
// `first_node`: their values are constants unless they are in `wrt`.
std::vector<Value> gradients_if_any(Graph& graph, Value loss, const std::vector<Value>& wrt,
                                    size_t first_node = 0);

}  // namespace genesis::passes
