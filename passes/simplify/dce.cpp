#include "passes/simplify/passes.h"

#include "passes/core/rewriter.h"

namespace genesis::passes {

Graph eliminate_dead_code(const Graph& graph, const PassContext&) { return without_dead_nodes(graph); }

}  // namespace genesis::passes
