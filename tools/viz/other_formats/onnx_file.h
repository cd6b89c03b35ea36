// Reads the contents of an .onnx file that the page shows: the nodes of its graphs, names, types, sizes, and the
// values of small tensors. The file is not trusted: impossible sizes, and sizes that do not fit the values, are
// Errors. Fields: https://github.com/onnx/onnx/blob/main/onnx/onnx.proto
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tools/viz/other_formats/onnx_values.h"

namespace genesis::viz {

struct OnnxGraph;

struct OnnxAttribute {
  std::string name;
  std::string text;  // value as text, for display
  std::optional<int64_t> integer;
  std::optional<double> real;
  std::vector<int64_t> integers;
  std::vector<double> reals;
  std::optional<std::string> string;
  std::optional<OnnxTensor> tensor;
  std::vector<std::shared_ptr<const OnnxGraph>> graphs;  // bodies of If, Loop and Scan
};

struct OnnxNode {
  std::string name, op;  // op: "Gemm"; in another domain: "com.microsoft::FusedMatMul"
  std::string scope;     // dotted name of the module it came from, if PyTorch's exporter wrote it
  std::vector<std::string> inputs, outputs;
  std::vector<OnnxAttribute> attributes;

  const OnnxAttribute* attribute(std::string_view wanted) const;  // null: none
};

struct OnnxGraph {
  std::string name;
  std::vector<OnnxNode> nodes;
  std::vector<OnnxTensor> tensors;  // initializers
  std::vector<std::string> inputs, outputs;
  std::map<std::string, OnnxType> types;  // by name: inputs, outputs, and others in the file
};

struct OnnxFile {
  std::vector<std::pair<std::string, std::string>> metadata;
  OnnxGraph graph;
  int64_t opset = 0;  // version of the standard operators; 0: unknown
};

// Throws Error with the path and the place in the file.
OnnxFile read_onnx(const std::filesystem::path& path);
OnnxFile read_onnx_from(std::span<const std::byte> bytes);

}  // namespace genesis::viz
