// Types and tensors of an .onnx file, in the form that is shown.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace genesis::viz {

struct OnnxType {
  std::string dtype = "unknown";
  bool has_shape = false;          // false: even the number of dimensions is unknown
  std::vector<std::string> shape;  // 768, "batch"; "?": unknown
  int64_t bits = 0;                // bits of an element; 0: unknown
};

// Returns the type for a TensorProto.DataType; "unknown" for other numbers.
OnnxType onnx_element_type(int64_t number);

struct OnnxTensor {
  std::string name;
  OnnxType type;
  // The values of a tensor with at most kShownElements elements. Both lists are empty for larger tensors and other
  // types.
  std::vector<int64_t> integers;
  std::vector<double> reals;
};

constexpr int64_t kShownElements = 64;

// Returns "i64[2] = [1,-1]" or "f32[64,3,7,7]".
std::string onnx_text(const OnnxTensor& tensor);

}  // namespace genesis::viz
