#include "models/formats/bits.h"

#include <limits>

#include "schema/core/error.h"
#include "schema/ops/elementwise/cast.h"
#include "schema/ops/elementwise/elementwise.h"

namespace genesis::models {
namespace {

Value combine(Value a, Value b, BitOperation operation) {
  if (operation == BitOperation::kAnd) return a * b;
  return operation == BitOperation::kOr ? maximum(a, b) : cast(a != b, DType::i64);
}

}  // namespace

Value bit_of(Value x, int bit) {
  if (bit == 63) return cast(x < 0, DType::i64);
  return remainder(floordiv(x, scalar_like(x, int64_t{1} << bit)), scalar_like(x, 2));
}

Value combine_bits(Value a, Value b, BitOperation operation, int bits, bool is_signed) {
  const Value left = cast(a, DType::i64), right = cast(b, DType::i64);
  Value result;
  for (int i = 0; i < bits; ++i) {
    int64_t weight = i == 63 ? std::numeric_limits<int64_t>::min() : int64_t{1} << i;
    if (i == bits - 1 && i != 63 && is_signed) weight = -weight;
    const Value bit = combine(bit_of(left, i), bit_of(right, i), operation) * scalar_like(left, weight);
    result = result ? result + bit : bit;
  }
  return cast(result, a.dtype());
}

Value combine_bits(Value a, Value b, BitOperation operation) {
  const DType dtype = a.dtype();
  if (is_float(dtype) || dtype == DType::boolean || dtype != b.dtype())
    fail("it combines bits of {} and {}: expected integers of one dtype", name_of(dtype), name_of(b.dtype()));
  return combine_bits(a, b, operation, static_cast<int>(8 * size_of(dtype)), dtype != DType::u8);
}

}  // namespace genesis::models
