// Binding gives the symbols of a graph their sizes: a Session runs and plans only bound graphs. Symbols stand
// in the types of inputs and in Shape attributes; everything else follows by inferring the types again.
#pragma once

#include <optional>

#include "schema/graph/graph.h"

namespace genesis::passes {

// The graph with the symbols in `bindings` replaced; others stay symbolic. Throws Error naming the node that
// does not work with these sizes.
Graph bind(const Graph& graph, const Bindings& bindings);

// The symbols of a graph's inputs and nodes, in the order they first appear.
std::vector<std::string> symbols_of(const Graph& graph);

// The symbol that a size determines: dim is symbol, c*symbol or c*symbol+k, and `size` fits it (4*batch of 8
// gives batch = 2). Nothing for other dimensions.
struct SolvedSymbol {
  std::string symbol;
  int64_t size;
};
std::optional<SolvedSymbol> solve_symbol(const Dim& dim, int64_t size);

}  // namespace genesis::passes
