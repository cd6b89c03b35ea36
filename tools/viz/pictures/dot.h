// A graph as Graphviz text. Repeated layers are folded: nodes whose names differ in one layer number only are
// drawn once, marked with how many there are. Used by genesis-viz.
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
  const Graph* after = nullptr;            // draw what differs between the graph and this one
  const Difference* difference = nullptr;  // of the two; given with `after`
  std::string title;
};

struct Dot {
  std::string text;
  size_t boxes = 0;
};

Dot to_dot(const Graph& graph, const DotOptions& options);

}  // namespace genesis::viz
