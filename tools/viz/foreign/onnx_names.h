// Finds the layer of each node of an ONNX graph by its name. Exporters name nodes in different
// ways: "/model/layers.0/attn/MatMul" (PyTorch, TensorFlow) names its scopes, "p2o.Add.12" (Paddle) and "Conv_3" do not.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "tools/viz/foreign/onnx_file.h"

namespace genesis::viz {

// The scopes of a node, the outermost first, and its own name as the last.
using OnnxPath = std::vector<std::string>;

class OnnxNames {
 public:
  // Learns from the names of weights which scopes there are.
  explicit OnnxNames(const OnnxGraph& graph);

  OnnxPath path_of(const OnnxNode& node) const;

 private:
  void learn(const OnnxGraph& graph);
  void learn(const std::string& name, const OnnxTensor& tensor);
  OnnxPath dotted(const std::string& name) const;

  std::set<std::string> scopes_;  // of weights: "layers.0.attn" and "layers.0" of layers.0.attn.weight
};

// `path` without the scopes that it has in common with `outer`: a body's nodes repeat the scopes of the node that they
// belong to.
OnnxPath within(const OnnxPath& outer, const OnnxPath& path);

}  // namespace genesis::viz
