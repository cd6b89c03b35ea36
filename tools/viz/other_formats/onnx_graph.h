// An ONNX graph as a page shows it: one list of nodes. The bodies of If, Loop and Scan come before the node that runs
// them. Constants are values that nodes read, not nodes. Types are inferred as far as possible.
#pragma once

#include <deque>

#include "schema/file/other_formats/onnx/model_file.h"
#include "tools/viz/other_formats/onnx_names.h"

namespace genesis::viz {

struct ShownValue {
  enum class Kind : int32_t { kInput = 0, kConstant = 2, kResult = 3 } kind;
  int32_t index;  // index of the graph's input, or -1 without a producer; of a constant: index in `tensors`
  std::string name;
  OnnxType type;
};

struct ShownNode {
  std::string op;
  OnnxPath path;
  std::vector<std::pair<std::string, std::string>> attributes;  // includes small constant inputs
  std::vector<int32_t> inputs, outputs;                         // indices in `values`
};

struct ShownGraph {
  std::vector<ShownValue> values;
  std::vector<ShownNode> nodes;
  std::vector<std::pair<std::string, int32_t>> outputs;
  std::deque<OnnxTensor> tensors;  // initializers and constants
};

ShownGraph shown_graph(const OnnxFile& file);

}  // namespace genesis::viz
