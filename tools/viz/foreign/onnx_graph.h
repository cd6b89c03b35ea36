// An ONNX graph as a page shows it: one list of nodes in which the bodies of If, Loop and Scan stand before the node that
// runs them, constants are no nodes but values that nodes read, and every value has a type as far as one can be inferred.
#pragma once

#include <deque>

#include "tools/viz/foreign/onnx_file.h"
#include "tools/viz/foreign/onnx_names.h"

namespace genesis::viz {

struct ShownValue {
  enum class Kind : int32_t { kInput = 0, kConstant = 2, kResult = 3 } kind;
  int32_t index;  // number of the graph's input, -1: nobody makes it; of a constant, in `tensors`
  std::string name;
  OnnxType type;
};

struct ShownNode {
  std::string op;
  OnnxPath path;
  std::vector<std::pair<std::string, std::string>>
      attributes;                        // also inputs that are constants of a few elements
  std::vector<int32_t> inputs, outputs;  // in `values`
};

struct ShownGraph {
  std::vector<ShownValue> values;
  std::vector<ShownNode> nodes;
  std::vector<std::pair<std::string, int32_t>> outputs;
  std::deque<OnnxTensor> tensors;  // initializers and constants
};

ShownGraph shown_graph(const OnnxFile& file);

}  // namespace genesis::viz
