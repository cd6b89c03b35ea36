// Converts numbers and tensors to JSON. JSON has no NaN and no infinity, so these become the strings "NaN",
// "Infinity" and "-Infinity".
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>

#include "schema/core/tensor.h"

namespace genesis::tools {

nlohmann::ordered_json number_json(double number);

// Returns {"dtype": "f32", "shape": [2,3], "values": [...], "values_left_out": 0}: the first `most` elements in
// row-major order and the number of elements left out. The digits identify every bit of an element.
nlohmann::ordered_json tensor_json(const Tensor& tensor, int64_t most);

}  // namespace genesis::tools
