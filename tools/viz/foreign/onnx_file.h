// Reads the part of an .onnx file that is shown: the nodes of its graphs, names, types, sizes, and the values of tensors
// of a few elements. What is read is not trusted: tensors whose sizes cannot be, or are not those of their values, are
// Errors. Fields: https://github.com/onnx/onnx/blob/main/onnx/onnx.proto
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tools/viz/foreign/onnx_values.h"

namespace genesis::viz {

struct OnnxGraph;

struct OnnxAttribute {
  std::string name;
  std::string text;  // as it is shown
  std::optional<int64_t> integer;
  std::optional<double> real;
  std::vector<int64_t> integers;
  std::vector<double> reals;
  std::optional<std::string> string;
  std::optional<OnnxTensor> tensor;
  std::vector<std::shared_ptr<const OnnxGraph>> graphs;  // the bodies of If, Loop and Scan
};

struct OnnxNode {
  std::string name, op;  // op: "Gemm"; of another domain: "com.microsoft::FusedMatMul"
  std::string scope;     // the module it came from, with dots, where PyTorch's exporter says it
  std::vector<std::string> inputs, outputs;
  std::vector<OnnxAttribute> attributes;

  const OnnxAttribute* attribute(std::string_view wanted) const;  // null: there is none
};

struct OnnxGraph {
  std::string name;
  std::vector<OnnxNode> nodes;
  std::vector<OnnxTensor> tensors;  // initializers
  std::vector<std::string> inputs, outputs;
  std::map<std::string, OnnxType> types;  // of inputs, outputs and what the file says of values between
};

struct OnnxFile {
  std::vector<std::pair<std::string, std::string>> metadata;
  OnnxGraph graph;
  int64_t opset = 0;  // of the standard operators; 0: not said
};

// Throws Error that names the path and the place in the file.
OnnxFile read_onnx(const std::filesystem::path& path);
OnnxFile read_onnx_from(std::span<const std::byte> bytes);

}  // namespace genesis::viz
