// Finds the layer of each node of an ONNX graph by its name. Exporters name nodes differently:
// "/model/layers.0/attn/MatMul" (PyTorch, TensorFlow) contains scopes, "p2o.Add.12" (Paddle) and "Conv_3" do not.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "schema/file/other_formats/onnx/model_file.h"

namespace genesis::viz {

// The scopes of a node, outermost first, followed by its own name.
using OnnxPath = std::vector<std::string>;

class OnnxNames {
 public:
  // Learns the scopes from the names of weights.
  explicit OnnxNames(const OnnxGraph& graph);

  OnnxPath path_of(const OnnxNode& node) const;

 private:
  void learn(const OnnxGraph& graph);
  void learn(const std::string& name, const OnnxTensor& tensor);
  OnnxPath dotted(const std::string& name) const;

  // Scopes of weights: "layers.0.attn" and "layers.0" for layers.0.attn.weight.
  std::set<std::string> scopes_;
};

// Returns `path` without the scopes shared with `outer`, since the nodes of a body repeat the scopes of the node that
// owns it.
OnnxPath within(const OnnxPath& outer, const OnnxPath& path);

}  // namespace genesis::viz
