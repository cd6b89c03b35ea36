#include "models/formats/onnx/quantization.h"

#include <cmath>
#include <limits>

#include "models/formats/onnx/element_types.h"
#include "models/formats/onnx/small_reals.h"
#include "schema/core/error.h"
#include "schema/graph/model.h"
#include "schema/ops/create.h"
#include "schema/ops/elementwise/cast.h"
#include "schema/ops/elementwise/elementwise.h"
#include "schema/ops/tensor/index.h"
#include "schema/ops/tensor/reduce.h"
#include "schema/ops/tensor/reshape.h"

namespace genesis::models::onnx {
namespace {

struct Range {
  double least, most;
};
Range range_of(OnnxElement element) {
  switch (element) {
    case OnnxElement::kI2:
      return {-2, 1};
    case OnnxElement::kU2:
      return {0, 3};
    case OnnxElement::kI4:
      return {-8, 7};
    case OnnxElement::kU4:
      return {0, 15};
    case OnnxElement::kI8:
      return {-128, 127};
    case OnnxElement::kU8:
      return {0, 255};
    case OnnxElement::kI16:
      return {-32768, 32767};
    case OnnxElement::kU16:
      return {0, 65535};
    case OnnxElement::kI32:
      return {-2147483648.0, 2147483647.0};
    default:
      fail("numbers are not limited to the range of {}",
           onnx_element_type(static_cast<int64_t>(element)).dtype);
  }
}

Value constant(Graph& graph, const Tensor& tensor) {
  return graph.constant(graph.model().add_tensor("codes", tensor));
}

// Looks codes up in the table of all values of the type.
Value decoded(Value codes, OnnxElement from) {
  const std::vector<float> values = values_of_codes(from);
  const Value table = constant(*codes.graph, Tensor::of(values));
  const Value places = reshape(cast(codes, DType::i64), {codes.shape().numel()});
  return reshape(index_select(table, 0, places), codes.shape());
}

// The code of a magnitude is the number of thresholds that are not above it.
Value encoded(Value x, OnnxElement to, bool saturate, const std::string& round_mode) {
  const SmallRealCodes codes = codes_of(to, saturate, round_mode);
  const Value wide = cast(x, DType::f32), flat = reshape(wide, {x.shape().numel(), 1});
  const Value magnitude = abs(flat);
  const Value counted =
      sum(cast(magnitude >= constant(*x.graph, Tensor::of(codes.thresholds)), DType::i32), {1});
  const Value line = reshape(flat, {x.shape().numel()});
  const Value is_negative = logical_or(line < 0.0, logical_and(line == 0.0, reciprocal(line) < 0.0));
  Value code = counted;
  if (codes.sign_bit > 0) {
    const Value negative = codes.has_negative_zero ? is_negative : logical_and(is_negative, code != 0);
    code = where(negative, code + codes.sign_bit, code);
  }
  const auto beyond = [&](int64_t positive) {
    return where(is_negative, scalar_like(code, positive + codes.infinity_sign), scalar_like(code, positive));
  };
  if (codes.overflow_code >= 0)
    code = where(counted == static_cast<int64_t>(codes.thresholds.size()), beyond(codes.overflow_code), code);
  if (codes.infinity_code >= 0) code = where(isinf(line), beyond(codes.infinity_code), code);
  code = where(isnan(line), scalar_like(code, codes.nan_code), code);
  return reshape(cast(code, DType::u8), x.shape());
}

// Keeps the low bits of whole numbers, as a number of the type.
Value low_bits(Value whole, OnnxElement to) {
  const Range range = range_of(to);
  const auto count = static_cast<int64_t>(range.most - range.least) + 1;
  const Value wide = cast(whole, DType::i64);
  const Value shifted = wide - static_cast<int64_t>(range.least);
  return remainder(shifted, scalar_like(shifted, count)) + static_cast<int64_t>(range.least);
}

Value integer_of(Value x, OnnxElement to) {
  if (to != OnnxElement::kU64 || !is_float(x.dtype())) return cast(x, DType::i64);
  const double half = 9223372036854775808.0;
  const Value wide = cast(x, DType::f64), is_large = wide >= half;
  return where(
      is_large,
      cast(wide - half, DType::i64) + scalar_like(cast(x, DType::i64), std::numeric_limits<int64_t>::min()),
      cast(where(is_large, Scalar(0.0), wide), DType::i64));
}

}  // namespace

Value saturated(Value x, OnnxElement element) {
  const Range range = range_of(element);
  return cast(clamp(x, range.least, range.most), *onnx_storage(element));
}

Value converted(Value x, OnnxElement from, OnnxElement to, bool saturate, const std::string& round_mode) {
  const auto storage = onnx_storage(to);
  if (!storage)
    fail("it converts to {}, which is not read", onnx_element_type(static_cast<int64_t>(to)).dtype);
  if (from == to) return x;
  if (is_small_real(from)) x = decoded(x, from);
  if (is_small_real(to)) return encoded(x, to, saturate, round_mode);
  if (from == OnnxElement::kU64 && is_float(*storage)) {
    const Value wide = cast(x, DType::f64);
    x = where(x < 0, wide + 18446744073709551616.0, wide);
  }
  if (!is_foreign(to)) return cast(x, *storage);
  if (to == OnnxElement::kU64) return integer_of(x, to);
  if (is_unsigned_word(to)) return cast(wrapped(integer_of(x, to), to), *storage);
  return cast(low_bits(x, to), *storage);
}

}  // namespace genesis::models::onnx
