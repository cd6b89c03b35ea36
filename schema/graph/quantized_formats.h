// The state formats q8 and q4 (schema/graph/weight_format.h says what they are): parts ".quants" and ".scales". There is a
// row of each for every dtype that a weight may mean: f32, bf16 and f16.
#pragma once

#include "schema/graph/state_storage.h"
#include "schema/graph/weight_format.h"

namespace genesis {

// Throws Error for kPlain, and for dtypes that no weight has.
const StateFormat& quantized_format(WeightFormat format, DType meant);
// kPlain for formats that are none of these.
WeightFormat weight_format_of(const StateFormat& format);
// All rows.
std::span<const StateFormat* const> quantized_formats();

}  // namespace genesis
