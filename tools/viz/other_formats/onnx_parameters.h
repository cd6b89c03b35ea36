// Names and values of ONNX node inputs that are parameters: sizes, axes and limits, which newer versions of an
// operator read from tensors.
#pragma once

#include <string>

#include "schema/file/other_formats/onnx/model_file.h"

namespace genesis::viz {

// Returns "axes" for input 1 of "Squeeze"; "input 1" if the name is unknown.
std::string onnx_input_name(const std::string& op, size_t input);

// Returns "[0,-1]" or "6"; empty if the values are unknown or too many to show.
std::string onnx_values_text(const OnnxTensor& tensor);

}  // namespace genesis::viz
