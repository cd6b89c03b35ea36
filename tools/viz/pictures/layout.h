// Runs Graphviz, which lays out the boxes of a graph.
#pragma once

#include <cstddef>
#include <string>

namespace genesis::viz {

struct LayoutOptions {
  std::string format;    // "svg", "png" or "pdf"
  size_t boxes = 0;      // number of boxes, for messages
  double seconds = 300;  // time limit; a longer layout is an Error
};

// `dot` is a graph in the DOT language. Returns the bytes of the picture file. Throws Error with advice if Graphviz
// is missing, fails or takes too long.
std::string lay_out(const std::string& dot, const LayoutOptions& options);

}  // namespace genesis::viz
