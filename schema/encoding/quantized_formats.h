// The state formats q8, q4 and q4m (described in schema/encoding/weight_format.h), with the parts ".quants" and ".scales". There
// is a format for each dtype that a quantized weight may stand for: f32, bf16 and f16.
#pragma once

#include <span>
#include <string_view>

#include "schema/encoding/state_format.h"
#include "schema/encoding/weight_format.h"

namespace genesis {

// Returns the format for weights of dtype `meant`. Throws Error for kPlain, and for dtypes other than f32, bf16 and f16.
const StateFormat& quantized_format(WeightFormat format, DType meant);
// Returns kPlain for formats other than q8, q4 and q4m.
WeightFormat weight_format_of(const StateFormat& format);
// Returns a format that a file may name; null if no format has this name for this dtype.
const StateFormat* find_file_format(std::string_view name, DType meant);
// Returns all formats of both kinds.
std::span<const StateFormat* const> quantized_formats();

}  // namespace genesis
