// Operators that convert between element types: casts and quantization.
#include <cmath>

#include "builder/functions.h"
#include "models/formats/onnx/element_types.h"
#include "models/formats/onnx/operators.h"
#include "models/formats/onnx/quantization.h"
#include "models/formats/onnx/small_reals.h"
#include "schema/core/error.h"
#include "schema/ops/elementwise/cast.h"

namespace genesis::models::onnx {
namespace {

Results converted_item(Call& call, OnnxElement to) {
  const bool saturates = call.attribute("saturate", 1) != 0;
  const std::string round_mode = call.text("round_mode", "up");
  return {item_of(converted(call.tensor(0), call.element(0), to, saturates, round_mode), to)};
}
Results cast_to(Call& call) {
  if (call.version() < 6) {
    const std::string to = call.text("to", "");
    for (int64_t i = 1; i <= 16; ++i)
      if (const char* names[] = {"", "FLOAT", "UINT8", "INT8", "UINT16", "INT16", "INT32", "INT64", "STRING",
                                 "BOOL", "FLOAT16", "DOUBLE", "UINT32", "UINT64", "COMPLEX64", "COMPLEX128",
                                 "BFLOAT16"};
          to == names[i])
        return converted_item(call, static_cast<OnnxElement>(i));
    fail("it converts to '{}'", to);
  }
  return converted_item(call, static_cast<OnnxElement>(call.attribute("to", 0)));
}
Results cast_like(Call& call) { return converted_item(call, call.element(1)); }

// A scale or a zero point: a number, one for each place of an axis, or one for each block along it.
Value spread_over(Value parameter, Value x, int64_t axis, int64_t block) {
  if (parameter.rank() == 0 || (parameter.shape().numel() == Dim(1) && parameter.rank() <= 1))
    return reshape(parameter, {});
  if (parameter.rank() == 1 && block == 0) {
    Shape shape(std::vector<Dim>(static_cast<size_t>(x.rank()), Dim(1)));
    shape[normalize_axis(axis, x.rank())] = parameter.dim(0);
    return reshape(parameter, shape);
  }
  if (block < 1) return parameter;
  const int at = normalize_axis(axis, x.rank());
  const Value wide = repeat_interleave(parameter, block, at);
  return wide.dim(at) == x.dim(at) ? wide : narrow(wide, at, 0, x.dim(at));
}

Results quantized(Call& call) {
  const Value x = call.tensor(0);
  const int64_t axis = call.attribute("axis", 1), block = call.attribute("block_size", 0);
  const auto stated = static_cast<OnnxElement>(call.attribute("output_dtype", 0));
  const bool saturates = call.attribute("saturate", 1) != 0;
  call.accept_any("precision");
  const OnnxElement to = call.has(2)                       ? call.element(2)
                         : stated != OnnxElement::kUnknown ? stated
                                                           : OnnxElement::kU8;
  const Value scale = spread_over(call.tensor(1), x, axis, block);
  const Value wide = cast(x, DType::f32) / converted(scale, call.element(1), OnnxElement::kF32, true);
  if (is_small_real(to)) return {item_of(converted(wide, OnnxElement::kF32, to, saturates), to)};
  Value y = round(wide);
  if (call.has(2)) y = y + cast(spread_over(call.tensor(2), x, axis, block), DType::f32);
  return {item_of(saturated(y, to), to)};
}

Results dequantized(Call& call) {
  const Value x = call.tensor(0), scale = call.tensor(1);
  const int64_t axis = call.attribute("axis", 1), block = call.attribute("block_size", 0);
  const auto stated = static_cast<OnnxElement>(call.attribute("output_dtype", 0));
  const OnnxElement to = stated != OnnxElement::kUnknown ? stated : call.element(1), from = call.element(0);
  const DType wide = x.dtype() == DType::i32 ? DType::f64 : DType::f32;
  Value y = is_small_real(from) ? converted(x, from, OnnxElement::kF32, true) : cast(x, wide);
  if (call.has(2) && !is_small_real(from)) y = y - cast(spread_over(call.tensor(2), x, axis, block), wide);
  const Value factor =
      converted(spread_over(scale, x, axis, block), call.element(1), OnnxElement::kF32, true);
  return {item_of(converted(cast(y, DType::f32) * factor, OnnxElement::kF32, to, true), to)};
}

// The scale and the zero point follow from the range of x, which includes 0.
Results quantized_by_range(Call& call) {
  const Value x = call.tensor(0);
  const Value least = minimum(min(x), Scalar(0.0)), most = maximum(max(x), Scalar(0.0));
  const Value scale = (most - least) / 255.0;
  const Value divisor = where(scale == 0.0, Scalar(1.0), scale);
  const Value zero = round(clamp(-least / divisor, 0, 255));
  const Value y = clamp(round(x / divisor) + zero, 0, 255);
  return {item_of(cast(y, DType::u8)), item_of(scale), item_of(cast(zero, DType::u8))};
}

Results bits_as(Call& call) {
  const auto to = static_cast<OnnxElement>(call.attribute("to", 0));
  const OnnxElement from = call.element(0);
  const Value x = call.tensor(0);
  if (from == to) return {call.item(0)};
  const auto is = [&](OnnxElement a, OnnxElement b) {
    return (from == a && to == b) || (from == b && to == a);
  };
  using enum OnnxElement;
  if (from == kBool && (to == kU8 || to == kI8)) return {item_of(cast(x, *onnx_storage(to)), to)};
  if (is(kI64, kU64)) return {item_of(x, to)};
  if (is(kI8, kU8) || is(kI16, kU16) || is(kI32, kU32)) return {item_of(converted(x, from, to, true), to)};
  fail("the bits of {} as {} are not read", onnx_element_type(static_cast<int64_t>(from)).dtype,
       onnx_element_type(static_cast<int64_t>(to)).dtype);
}

}  // namespace

const Operators& type_operators() {
  static const Operators kOperators = {
      {"BitCast", bits_as, 1, Takes::kAnyAlone},     {"Cast", cast_to, 1, Takes::kAnyAlone},
      {"CastLike", cast_like, 1, Takes::kAnyAlone},  {"DequantizeLinear", dequantized, 1, Takes::kAnyAlone},
      {"DynamicQuantizeLinear", quantized_by_range}, {"QuantizeLinear", quantized, 1, Takes::kAnyAlone},
  };
  return kOperators;
}

}  // namespace genesis::models::onnx
