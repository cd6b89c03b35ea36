// Numbers and tensors as JSON, which knows neither NaN nor infinity: these are the strings "NaN", "Infinity"
// and "-Infinity". Used by infer and compare.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>

#include "schema/core/tensor.h"

namespace genesis::tools {

nlohmann::ordered_json number_json(double number);

// {"dtype": "f32", "shape": [2,3], "values": [...], "values_left_out": 0}: the first `most` elements in
// row-major order, with the digits that give back every bit, and how many more there are.
nlohmann::ordered_json tensor_json(const Tensor& tensor, int64_t most);

}  // namespace genesis::tools
