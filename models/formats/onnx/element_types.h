// Element types of ONNX that are no DType: which operators take them, and how results get them (tensor_data.h says how they are
// held).
#pragma once

#include "models/formats/onnx/operators.h"

namespace genesis::models::onnx {

// Returns true for an element type that is held in a DType of another one.
bool is_foreign(OnnxElement element);
bool is_unsigned_word(OnnxElement element);  // u16, u32, u64

// Throws Error if an operator gets an element type that it does not take.
void check_elements(const Operator& operation, const std::vector<ItemPtr>& inputs);
// Gives results the element type of the inputs, if they have no other, and cuts unsigned integers to their range.
void keep_elements(const Operator& operation, const std::vector<ItemPtr>& inputs, Results& results);

// Returns x, held in a wider signed type, modulo the range of an unsigned type.
Value wrapped(Value x, OnnxElement element);

}  // namespace genesis::models::onnx
