// Conversions between reals and the small types of quantized numbers.
#pragma once

#include "models/formats/onnx/item.h"

namespace genesis::models::onnx {

// Returns whole numbers limited to the range of an integer type of at most 32 bits, in the DType that holds it.
Value saturated(Value x, OnnxElement element);

// Returns x as another element type with the rules of ONNX's Cast. `saturate` is for reals of 8 bits.
Value converted(Value x, OnnxElement from, OnnxElement to, bool saturate,
                const std::string& round_mode = "up");

}  // namespace genesis::models::onnx
