// Inputs of ONNX nodes that are parameters: sizes, axes and limits that newer versions of an operator read as tensors.
#pragma once

#include <string>

#include "tools/viz/foreign/onnx_file.h"

namespace genesis::viz {

// "axes" of input 1 of "Squeeze"; "input 1" where the name is not known.
std::string onnx_input_name(const std::string& op, size_t input);

// "[0,-1]", "6"; empty: too many to show, or not known.
std::string onnx_values_text(const OnnxTensor& tensor);

}  // namespace genesis::viz
