// A graph as Graphviz text. Repeated layers are folded: nodes whose names differ in one layer number only are
// drawn once, marked with how many there are. Used by genesis-viz.
#pragma once

#include <map>
#include <string>

#include "schema/graph.h"

namespace genesis::viz {

enum class Color : uint8_t { kOp, kDtype, kMemory, kTime };

struct DotOptions {
  Color color = Color::kOp;
  bool fold = true;
  Bindings sizes;                          // for kMemory
  std::map<std::string, double> times_us;  // by node name, for kTime
  const Graph* other = nullptr;            // draw differences: nodes only here green, only in `other` red
};

std::string to_dot(const Graph& graph, const DotOptions& options);

}  // namespace genesis::viz
