// Runs Graphviz, which gives the boxes of a graph their places. Used by genesis-viz.
#pragma once

#include <cstddef>
#include <string>

namespace genesis::viz {

struct LayoutOptions {
  std::string format;    // "svg", "png" or "pdf"
  size_t boxes = 0;      // how many are drawn, for messages
  double seconds = 300;  // more than that is refused
};

// `dot` is a graph in the DOT language; returns the file's bytes. Throws Error when Graphviz is not there,
// fails, or takes too long, with what to do.
std::string lay_out(const std::string& dot, const LayoutOptions& options);

}  // namespace genesis::viz
