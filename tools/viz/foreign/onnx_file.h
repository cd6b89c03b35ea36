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

namespace genesis::viz {

struct OnnxType {
  std::string dtype = "unknown";
  bool has_shape = false;          // false: not even the number of dimensions is known
  std::vector<std::string> shape;  // 768, "batch"; "?": not said
  int64_t bits = 0;                // of an element; 0: not known
};

// By number of TensorProto.DataType; "unknown" for others.
OnnxType onnx_element_type(int64_t number);

struct OnnxTensor {
  std::string name;
  OnnxType type;
  // The values of a tensor with at most kShownElements elements. Both are empty for a larger tensor and for other types.
  std::vector<int64_t> integers;
  std::vector<double> reals;
};

constexpr int64_t kShownElements = 64;

// "i64[2] = [1,-1]", "f32[64,3,7,7]".
std::string onnx_text(const OnnxTensor& tensor);

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
