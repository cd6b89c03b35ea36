// Gives the symbols of a graph their sizes. A Session runs and plans only bound graphs. Symbols occur in the types of inputs
// and in Shape attributes; all other types follow by inferring them again.
#pragma once

#include <optional>

#include "schema/graph/graph.h"

namespace genesis::passes {

// Returns the graph with the symbols in `bindings` replaced; other symbols stay. Throws an Error that names the node which does
// not work with these sizes.
Graph bind(const Graph& graph, const Bindings& bindings);

// Returns the symbols of a graph's inputs and nodes, in order of first appearance.
std::vector<std::string> symbols_of(const Graph& graph);

// A symbol and the size that solve_symbol() found for it: `dim` is symbol, c*symbol or c*symbol+k, and `size` fits it (4*batch
// = 8 gives batch = 2). Empty for other dimensions.
struct SolvedSymbol {
  std::string symbol;
  int64_t size;
};
std::optional<SolvedSymbol> solve_symbol(const Dim& dim, int64_t size);

}  // namespace genesis::passes
