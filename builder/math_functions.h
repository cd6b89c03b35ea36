// Functions of elements that are composed of ops, under torch's names. They have gradients.
#pragma once

#include "schema/graph/graph.h"

namespace genesis {

Value asinh(Value x);
Value acosh(Value x);
Value atanh(Value x);
Value log2(Value x);
Value log10(Value x);
Value exp2(Value x);
Value trunc(Value x);          // toward zero
Value fmod(Value a, Value b);  // the remainder of a division toward zero: it has the sign of a
Value softsign(Value x);
Value tanhshrink(Value x);
Value lerp(Value a, Value b, Value weight);  // a + weight (b - a)

}  // namespace genesis
