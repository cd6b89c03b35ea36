// Operators on the bits of integers (models/formats/bits.h), and divisions, composed of arithmetic.
#include <limits>

#include "builder/functions.h"
#include "models/formats/bits.h"
#include "models/formats/onnx/element_types.h"
#include "models/formats/onnx/integers.h"
#include "models/formats/onnx/operators.h"
#include "schema/core/error.h"
#include "schema/ops/elementwise/cast.h"

namespace genesis::models::onnx {

Value quotient_toward_zero(Value a, Value b) {
  const Value q = floordiv(a, b);
  if (a.dtype() == DType::u8) return q;
  const Value is_rounded_down = logical_and(remainder(a, b) != 0, logical_xor(a < 0, b < 0));
  return where(is_rounded_down, q + 1, q);
}

Value ordered_u64(Value x) { return x + scalar_like(x, std::numeric_limits<int64_t>::min()); }

// (a >> 1) / b * 2 is the quotient, or one less. A divisor of 2^63 or more is negative here.
Value quotient_of_u64(Value a, Value b) {
  const Value two = scalar_like(a, 2), half_range = scalar_like(a, std::numeric_limits<int64_t>::max());
  const Value half = floordiv(a, two) + where(a < 0, half_range + 1, scalar_like(a, 0));
  const Value divisor = where(b < 0, scalar_like(b, 1), b);
  const Value estimate = floordiv(half, divisor) * 2;
  const Value rest = a - estimate * divisor;
  const Value is_less = ordered_u64(rest) < ordered_u64(divisor);
  const Value quotient = estimate + where(is_less, scalar_like(a, 0), Scalar(1));
  return where(b < 0, cast(ordered_u64(a) >= ordered_u64(b), DType::i64), quotient);
}

namespace {

int bits_of(OnnxElement element) {
  switch (element) {
    case OnnxElement::kU8:
    case OnnxElement::kI8:
      return 8;
    case OnnxElement::kU16:
    case OnnxElement::kI16:
      return 16;
    case OnnxElement::kU32:
    case OnnxElement::kI32:
      return 32;
    case OnnxElement::kU64:
    case OnnxElement::kI64:
      return 64;
    default:
      fail("it combines bits of {}: expected integers",
           onnx_element_type(static_cast<int64_t>(element)).dtype);
  }
}

bool is_signed(OnnxElement element) {
  return element == OnnxElement::kI8 || element == OnnxElement::kI16 || element == OnnxElement::kI32 ||
         element == OnnxElement::kI64;
}

template <BitOperation operation>
Results bitwise(Call& call) {
  const OnnxElement element = call.element(0);
  return {
      item_of(combine_bits(call.tensor(0), call.tensor(1), operation, bits_of(element), is_signed(element)),
              element)};
}

Value inverted(Call& call) {
  const Value x = call.tensor(0);
  const OnnxElement element = call.element(0);
  if (is_signed(element) || element == OnnxElement::kU64) return scalar_like(x, -1) - x;
  return scalar_like(x, (int64_t{1} << bits_of(element)) - 1) - x;
}

Results shifted(Call& call) {
  const std::string direction = call.text("direction", "");
  if (direction != "LEFT" && direction != "RIGHT") fail("its attribute 'direction' is '{}'", direction);
  const OnnxElement element = call.element(0);
  const int bits = bits_of(element);
  const DType dtype = call.tensor(0).dtype();
  const Value x = cast(call.tensor(0), DType::i64), by = cast(call.tensor(1), DType::i64);
  const Value is_out = logical_or(by >= bits, by < 0), shift = where(is_out, scalar_like(by, 0), by);
  // 2 to the power of the shift, bit by bit of the shift, exact up to 2^63.
  Value factor = scalar_like(x, 1);
  for (int bit = 0; bit < 6; ++bit) {
    const int64_t power = bit == 5 ? int64_t{1} << 32 : int64_t{1} << (int64_t{1} << bit);
    factor = factor * where(bit_of(shift, bit) == 1, scalar_like(x, power), Scalar(1));
  }
  Value result = direction == "LEFT"            ? x * factor
                 : element == OnnxElement::kU64 ? quotient_of_u64(x, factor)
                                                : floordiv(x, factor);
  // A signed integer that is shifted right keeps its sign.
  const bool keeps_sign = direction == "RIGHT" && is_signed(element);
  result =
      where(is_out, keeps_sign ? where(x < 0, scalar_like(x, -1), Scalar(0)) : scalar_like(x, 0), result);
  if (bits < 64) {
    const int64_t range = int64_t{1} << bits, below = is_signed(element) ? range / 2 : 0;
    result = remainder(result + below, scalar_like(x, range)) - below;
  }
  return {item_of(cast(result, dtype), element)};
}

}  // namespace

const Operators& integer_operators() {
  static const Operators kOperators = {
      {"BitShift", shifted, 1, Takes::kUnsigned},
      {"BitwiseAnd", bitwise<BitOperation::kAnd>, 1, Takes::kUnsigned},
      {"BitwiseNot", one<inverted>, 1, Takes::kUnsigned},
      {"BitwiseOr", bitwise<BitOperation::kOr>, 1, Takes::kUnsigned},
      {"BitwiseXor", bitwise<BitOperation::kXor>, 1, Takes::kUnsigned},
  };
  return kOperators;
}

}  // namespace genesis::models::onnx
