// The state formats q8 and q4 (schema/encoding/weight_format.h says what they are): parts ".quants" and ".scales". There is a
// row of each for every dtype that a weight may mean: f32, bf16 and f16.
#pragma once

#include <span>
#include <string_view>

#include "schema/encoding/state_format.h"
#include "schema/encoding/weight_format.h"

namespace genesis {

// Throws Error for kPlain, and for dtypes that no weight has.
const StateFormat& quantized_format(WeightFormat format, DType meant);
// kPlain for formats that are none of these.
WeightFormat weight_format_of(const StateFormat& format);
// A format that a file may name; null: there is none of this name for this dtype.
const StateFormat* find_file_format(std::string_view name, DType meant);
// All rows.
std::span<const StateFormat* const> quantized_formats();

}  // namespace genesis
