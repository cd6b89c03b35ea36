// Makes graphs of many nodes in shapes that reveal superlinear work. All values are small, so that the time is that
// of compiling.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "schema/graph/model.h"
#include "tests/sanitized.h"

namespace genesis::testing {

struct LargeGraph {
  std::string name;
  // Makes a model whose entry point `main` has about `nodes` nodes.
  std::unique_ptr<Model> (*make)(int64_t nodes);
};

const std::vector<LargeGraph>& large_graphs();
// Throws Error if there is none of that name.
const LargeGraph& large_graph(const std::string& name);

// Makes layers with weights: an entry point `loss` of about `nodes` nodes that reads one parameter per four of them.
std::unique_ptr<Model> make_layers(int64_t nodes);

}  // namespace genesis::testing
