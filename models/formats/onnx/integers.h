// Integer arithmetic that ONNX has and our ops do not, composed of them: division toward zero, u64 held in i64, bits.
#pragma once

#include "models/formats/onnx/item.h"

namespace genesis::models::onnx {

Value quotient_toward_zero(Value a, Value b);
// u64 is held as its bits in i64. Returns x with the order of u64 as the order of i64; twice is x itself.
Value ordered_u64(Value x);
Value quotient_of_u64(Value a, Value b);

}  // namespace genesis::models::onnx
