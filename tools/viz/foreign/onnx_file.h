// What an .onnx file says, as far as it is shown: the nodes of its graph, names, types and sizes, not the values of its
// tensors. What is read is not trusted. Fields: https://github.com/onnx/onnx/blob/main/onnx/onnx.proto
#pragma once

#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace genesis::viz {

struct OnnxType {
  std::string dtype = "unknown";
  std::vector<std::string> shape;  // 768, "batch"; "?": not said
  int64_t bits = 0;                // of an element; 0: not known
};

struct OnnxNode {
  std::string name, op;  // op: "Gemm"; of another domain: "com.microsoft::FusedMatMul"
  std::vector<std::string> inputs, outputs;
  std::vector<std::pair<std::string, std::string>> attributes;  // values as text
};

struct OnnxTensor {
  std::string name;
  OnnxType type;
};

struct OnnxFile {
  std::vector<std::pair<std::string, std::string>> metadata;
  std::string graph;
  std::vector<OnnxNode> nodes;
  std::vector<OnnxTensor> tensors;  // initializers
  std::vector<std::string> inputs, outputs;
  std::map<std::string, OnnxType> types;  // of inputs, outputs and what the file says of values between
};

// Throws Error that names the path and the place in the file.
OnnxFile read_onnx(const std::filesystem::path& path);
OnnxFile read_onnx_from(std::span<const std::byte> bytes);

}  // namespace genesis::viz
