// Types and tensors of an .onnx file as they are shown. Used by onnx_file.h, and by onnx_tensor.cpp, which reads them.
#pragma once

#include <cstdint>
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

}  // namespace genesis::viz
