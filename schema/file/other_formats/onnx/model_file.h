// Reads an .onnx file: graphs, functions, names, types, sizes, and where the values of tensors are (tensor_data.h reads them). The
// file is not trusted: impossible sizes, sizes that do not fit the values, and graphs that nest too deep are Errors. Fields: https://github.com/onnx/onnx/blob/main/onnx/onnx.proto
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "schema/file/io/mapped_file.h"
#include "schema/file/other_formats/onnx/values.h"

namespace genesis {

struct OnnxGraph;

struct OnnxAttribute {
  std::string name;
  std::string text;  // value as text, for display
  std::optional<int64_t> integer;
  std::optional<double> real;
  std::vector<int64_t> integers;
  std::vector<double> reals;
  std::optional<std::string> string;
  std::vector<std::string> strings;
  std::optional<OnnxTensor> tensor;
  std::vector<OnnxTensor> tensors;
  std::string reference;  // in a function: the name of the function's attribute whose value this is; or empty
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

// An operator that the file itself defines by other operators.
struct OnnxFunction {
  std::string op;  // the name that nodes use: "pkg.torch::Gelu"
  std::vector<std::string> inputs, outputs;
  std::vector<std::string> attributes;  // names of those without a default
  std::vector<OnnxAttribute> defaults;
  std::vector<OnnxNode> nodes;
  std::map<std::string, int64_t> opsets;
};

struct OnnxFile {
  std::vector<std::pair<std::string, std::string>> metadata;
  OnnxGraph graph;
  int64_t opset = 0;                      // version of the standard operators; 0: unknown
  int64_t ir_version = 0;                 // 0: unknown
  std::map<std::string, int64_t> opsets;  // versions by domain; the standard one is "ai.onnx"
  std::vector<OnnxFunction> functions;
  std::shared_ptr<const MappedFile> file =
      nullptr;  // keeps the bytes of tensors valid; null if they were in memory
};

// Throws Error with the path and the place in the file.
OnnxFile read_onnx(const std::filesystem::path& path);
OnnxFile read_onnx_from(std::span<const std::byte> bytes);

}  // namespace genesis
