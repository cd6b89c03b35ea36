// Graphs of many nodes in the shapes that find what grows faster than the graph: used by the tests of growth
// in passes/ and executor/. All values are small, so that time goes into compiling.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "schema/graph/model.h"
#include "tests/sanitized.h"

namespace genesis::testing {

struct LargeGraph {
  std::string name;
  // A model whose entry point `main` has about `nodes` nodes.
  std::unique_ptr<Model> (*make)(int64_t nodes);
};

const std::vector<LargeGraph>& large_graphs();
// Throws Error when there is none of that name.
const LargeGraph& large_graph(const std::string& name);

// Layers with weights: an entry point `loss` of about `nodes` nodes that reads one parameter for every four
// of them.
std::unique_ptr<Model> make_layers(int64_t nodes);

}  // namespace genesis::testing
