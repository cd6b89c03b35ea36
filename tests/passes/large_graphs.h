// Graphs of many nodes in the shapes that find what grows faster than the graph: used by the tests of growth
// in passes/ and executor/. All values are small, so that time goes into compiling.
#pragma once

#include <ctime>
#include <memory>
#include <string>
#include <vector>

#include "schema/graph/model.h"

namespace genesis::testing {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr double kSlower = 5;  // what a sanitizer makes of the same work
#else
inline constexpr double kSlower = 1;
#endif

// Of the processor, as a build without a sanitizer would take.
inline double processor_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC / kSlower; }

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
