// Operators on the bits of integers (torch.bitwise_and and so on), composed of arithmetic: there are no ops on bits.
#pragma once

#include "schema/graph/graph.h"

namespace genesis::models {

enum class BitOperation { kAnd, kOr, kXor };

// Combines two integers of one dtype bit by bit; broadcasts. `bits` and `is_signed` say which numbers the dtype holds: u16 may be held in i32.
// The result has the dtype of a.
Value combine_bits(Value a, Value b, BitOperation operation, int bits, bool is_signed);
// Does the same with all bits of the dtype, which is u8, i8, i16, i32 or i64.
Value combine_bits(Value a, Value b, BitOperation operation);

// Bit `bit` of integers in i64: 0 or 1.
Value bit_of(Value x, int bit);

}  // namespace genesis::models
