// Writes a graph as Graphviz text. Repeated layers are folded: nodes whose names differ only in one layer number are
// drawn once, marked with their number.
#pragma once

#include <map>
#include <string>

#include "schema/graph/graph.h"
#include "tools/viz/data/difference.h"

namespace genesis::viz {

enum class Color : uint8_t { kOp, kDtype, kMemory, kTime };

struct DotOptions {
  Color color = Color::kOp;
  bool fold = true;
  Bindings sizes;                          // for kMemory
  std::map<std::string, double> times_us;  // by node name, for kTime
  const Graph* after = nullptr;            // draw the differences between the graph and this one
  const Difference* difference = nullptr;  // the differences to `after`; required with it
  std::string title;
};

struct Dot {
  std::string text;
  size_t boxes = 0;
};

Dot to_dot(const Graph& graph, const DotOptions& options);

}  // namespace genesis::viz
