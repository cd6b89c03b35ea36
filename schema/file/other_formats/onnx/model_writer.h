// Writes an .onnx file: one graph with its nodes, initializers and types. The bytes of initializers are written from where they are, so a
// model needs no second copy in memory. Fields: https://github.com/onnx/onnx/blob/main/onnx/onnx.proto
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "schema/core/tensor.h"

namespace genesis {

struct OnnxNodeRecord {
  std::string name, op;
  std::vector<std::string> inputs, outputs;  // an empty name is an optional input that is left out
  std::string attributes;                    // made by onnx_attribute()
};

struct OnnxModelRecord {
  std::string graph_name, producer_version;
  std::vector<OnnxNodeRecord> nodes;  // in an order in which each reads what is there
  std::vector<std::pair<std::string, TensorType>> inputs, outputs;
  std::vector<std::pair<std::string, Tensor>> initializers;
  std::vector<std::pair<std::string, std::string>> metadata;
  int64_t opset = 0, ir_version = 0;
};

// A graph that is an attribute of a node, such as the body of a loop. It may read values of the graph around it.
struct OnnxGraphRecord {
  std::string name;
  std::vector<OnnxNodeRecord> nodes;
  std::vector<std::pair<std::string, TensorType>> inputs, outputs;
};

// Returns an attribute of a node; several are joined.
std::string onnx_attribute(const std::string& name, int64_t value);
std::string onnx_attribute(const std::string& name, double value);
std::string onnx_attribute(const std::string& name, const std::string& value);
std::string onnx_attribute(const std::string& name, const std::vector<int64_t>& values);
std::string onnx_attribute(const std::string& name, const std::vector<std::string>& values);
std::string onnx_attribute(const std::string& name, const Tensor& value);
std::string onnx_attribute(const std::string& name, const OnnxGraphRecord& value);

// The most bytes of initializers that stand in the .onnx file itself: a message of protobuf has at most 2 GiB.
inline constexpr int64_t kMaxBytesInOnnx = int64_t{2000} << 20;

// Returns the files that were written. With more than `most_inside` bytes of initializers, those of at least 1 KiB go to the file
// `<name>.data` beside the .onnx file. Each file appears completely or not at all. Throws Error naming the path.
std::vector<std::filesystem::path> write_onnx(const OnnxModelRecord& model, const std::filesystem::path& path,
                                              int64_t most_inside = kMaxBytesInOnnx);

}  // namespace genesis
