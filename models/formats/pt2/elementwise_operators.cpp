// Operators on elements: arithmetic, functions, comparisons and logic.
#include <limits>

#include "builder/functions.h"
#include "builder/math_functions.h"
#include "models/formats/bits.h"
#include "models/formats/pt2/operators.h"
#include "schema/core/error.h"
#include "schema/ops/elementwise/cast.h"
#include "schema/ops/tensor/random.h"

namespace genesis::models::pt2 {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

template <Value (*function)(Value)>
Results unary(Call& call) {
  return std::vector<Value>{function(call.tensor("self"))};
}

// Functions of reals give f32 for integers.
Value real(Value x) { return is_float(x.dtype()) ? x : cast(x, DType::f32); }
template <Value (*function)(Value)>
Results real_unary(Call& call) {
  return std::vector<Value>{function(real(call.tensor("self")))};
}

template <Value (*function)(Value, Value)>
Results binary(Call& call) {
  const Value a = call.tensor("self");
  return std::vector<Value>{function(a, call.operand("other", a))};
}

// `alpha` multiplies the second operand.
Value scaled_other(Call& call, Value a) {
  const Value b = call.operand("other", a);
  if (!call.has("alpha")) return b;
  const Scalar alpha = call.scalar("alpha");
  return alpha.as_double() == 1 ? b : b * alpha;
}
Value plus(Call& call) {
  const Value a = call.tensor("self"), b = scaled_other(call, a);
  return a.dtype() == DType::boolean && b.dtype() == DType::boolean ? logical_or(a, b) : a + b;
}
Value minus(Call& call) {
  const Value a = call.tensor("self");
  return a - scaled_other(call, a);
}
Value reversed_minus(Call& call) {
  const Value a = call.tensor("self");
  return scaled_other(call, a) - a;
}
Value times(Call& call) {
  const Value a = call.tensor("self"), b = call.operand("other", a);
  return a.dtype() == DType::boolean && b.dtype() == DType::boolean ? logical_and(a, b) : a * b;
}

Value divided(Call& call) {
  const Value a = call.tensor("self"), b = call.operand("other", a);
  const std::string rounding = call.text_or("rounding_mode", "");
  if (rounding.empty()) return a / b;
  if (rounding == "floor") return floordiv(a, b);
  if (rounding != "trunc") fail("its rounding_mode is '{}': expected 'floor' or 'trunc'", rounding);
  if (!is_float(a.dtype()) || !is_float(b.dtype()))
    fail("a division of integers with rounding_mode 'trunc' is not read");
  const Value quotient = a / b;
  return where(quotient < 0.0, ceil(quotient), floor(quotient));
}

Value power(Call& call) {
  const Value a = call.tensor("self");
  if (call.is_tensor("exponent")) return pow(a, call.tensor("exponent"));
  const Scalar exponent = call.scalar("exponent");
  if (exponent.as_double() == 2) return square(a);
  return exponent.is_integer() || is_float(a.dtype()) ? pow(a, exponent) : pow(real(a), exponent);
}
Value power_of_scalar(Call& call) { return pow(call.scalar("self"), call.tensor("exponent")); }

Value clamped(Call& call) {
  const Value x = call.tensor("self");
  if (call.is_tensor("min") || call.is_tensor("max")) {
    const Value above = call.has("min") ? maximum(x, call.tensor("min")) : x;
    return call.has("max") ? minimum(above, call.tensor("max")) : above;
  }
  const Value above = call.has("min") ? maximum(x, call.scalar("min")) : x;
  return call.has("max") ? minimum(above, call.scalar("max")) : above;
}

Value chosen(Call& call) {
  const Value condition = call.tensor("condition");
  const bool a = call.is_tensor("self"), b = call.is_tensor("other");
  if (a && b) return where(condition, call.tensor("self"), call.tensor("other"));
  if (a) return where(condition, call.tensor("self"), call.scalar("other"));
  if (b) return where(condition, call.scalar("self"), call.tensor("other"));
  const Scalar first = call.scalar("self"), second = call.scalar("other");
  const DType dtype = first.is_integer() && second.is_integer() ? DType::i64 : DType::f32;
  return where(condition, full(call.g(), {}, first, dtype), full(call.g(), {}, second, dtype));
}
Value filled(Call& call) {
  const Value x = call.tensor("self");
  return where(call.tensor("mask"), call.operand("value", x), x);
}

Value approximated_gelu(Call& call) {
  const std::string kind = call.text_or("approximate", "none");
  if (kind != "none" && kind != "tanh")
    fail("its argument 'approximate' is '{}': expected 'none' or 'tanh'", kind);
  return gelu(call.tensor("self"), kind == "tanh" ? GeluKind::kTanh : GeluKind::kErf);
}
Value leaky(Call& call) { return leaky_relu(call.tensor("self"), call.number_or("negative_slope", 0.01)); }
Value exponential_linear(Call& call) {
  call.must_be("scale", 1);
  call.must_be("input_scale", 1);
  return elu(call.tensor("self"), call.number_or("alpha", 1));
}
Value soft_plus(Call& call) {
  return softplus(call.tensor("self"), call.number_or("beta", 1), call.number_or("threshold", 20));
}
Value hard_tanh(Call& call) {
  return hardtanh(call.tensor("self"), call.number_or("min_val", -1), call.number_or("max_val", 1));
}
Value parametric_relu(Call& call) {
  const Value x = call.tensor("self"), weight = call.tensor("weight");
  if (weight.shape().numel() == Dim(1)) return where(x > 0.0, x, reshape(weight, {}) * x);
  Shape by_channel;
  for (int i = 0; i < x.rank(); ++i) by_channel.push_back(i == 1 ? x.dim(1) : Dim(1));
  return where(x > 0.0, x, reshape(weight, by_channel) * x);
}
Value halves_gated(Call& call) { return glu(call.tensor("self"), call.integer_or("dim", -1)); }

Value converted(Call& call) {
  const Value x = call.tensor("self");
  const auto dtype = call.dtype("dtype");
  return dtype ? cast(x, *dtype) : x;
}
Value as_type_of(Call& call) { return cast(call.tensor("self"), call.tensor("other").dtype()); }

// In torch a number without axes takes the dtype of the other operand, if both are of one kind.
DType dtype_of_bits(Value a, Value b) {
  const bool is_one_kind = (a.dtype() == DType::boolean) == (b.dtype() == DType::boolean);
  if (!is_one_kind || (a.rank() == 0) == (b.rank() == 0)) return promote(a.dtype(), b.dtype());
  return a.rank() == 0 ? b.dtype() : a.dtype();
}

// For bools, bitwise operators are logical ones.
template <BitOperation operation, Value (*function)(Value, Value)>
Results bitwise(Call& call) {
  const Value a = call.tensor("self"), b = call.operand("other", a);
  if (a.dtype() == DType::boolean && b.dtype() == DType::boolean) return std::vector<Value>{function(a, b)};
  const DType dtype = dtype_of_bits(a, b);
  return std::vector<Value>{combine_bits(cast(a, dtype), cast(b, dtype), operation)};
}
constexpr auto kAnd = bitwise<BitOperation::kAnd, logical_and>;
constexpr auto kOr = bitwise<BitOperation::kOr, logical_or>;
constexpr auto kXor = bitwise<BitOperation::kXor, logical_xor>;
Value bitwise_inverse(Call& call) {
  const Value x = call.tensor("self");
  if (x.dtype() == DType::boolean) return logical_not(x);
  return scalar_like(x, x.dtype() == DType::u8 ? 255 : -1) - x;
}

Value between(Call& call) {
  const Value x = call.tensor("self");
  return lerp(x, call.operand("end", x), call.operand("weight", x));
}
Value sum_and_product(Call& call) {
  const Value x = call.tensor("self");
  return x + call.tensor("tensor1") * call.tensor("tensor2") * call.number_or("value", 1);
}
Value sum_and_quotient(Call& call) {
  const Value x = call.tensor("self");
  return x + call.tensor("tensor1") / call.tensor("tensor2") * call.number_or("value", 1);
}

Value same(Call& call) { return call.tensor("self"); }
Value dropped(Call& call) {
  const Value x = call.tensor(call.has("self") ? "self" : "input");  // dropout_ calls it self
  const double p = call.number_or("p", 0.5);
  if (!call.flag_or("train", true) || p == 0) return x;
  return dropout(call.g().value(call.g().rng()), x, p);
}
Value nan_replaced(Call& call) {
  const Value x = call.tensor("self");
  const bool half = x.dtype() == DType::f16, wide = x.dtype() == DType::f64;
  const double most = half   ? 65504
                      : wide ? std::numeric_limits<double>::max()
                             : std::numeric_limits<float>::max();
  const Value number = where(isnan(x), Scalar(call.number_or("nan", 0)), x);
  const Value below = where(number == kInfinity, Scalar(call.number_or("posinf", most)), number);
  return where(below == -kInfinity, Scalar(call.number_or("neginf", -most)), below);
}

const Operators kElementwiseOperators = {
    {"aten.abs.default", unary<abs>},
    {"aten.acos.default", real_unary<acos>},
    {"aten.acosh.default", real_unary<acosh>},
    {"aten.add.Scalar", one<plus>},
    {"aten.add.Tensor", one<plus>},
    {"aten.addcdiv.default", one<sum_and_quotient>},
    {"aten.addcmul.default", one<sum_and_product>},
    {"aten.alias.default", one<same>},
    {"aten.asin.default", real_unary<asin>},
    {"aten.asinh.default", real_unary<asinh>},
    {"aten.atan.default", real_unary<atan>},
    {"aten.atan2.default", binary<atan2>},
    {"aten.atanh.default", real_unary<atanh>},
    {"aten.bitwise_and.Scalar", kAnd},
    {"aten.bitwise_and.Tensor", kAnd},
    {"aten.bitwise_not.default", one<bitwise_inverse>},
    {"aten.bitwise_or.Scalar", kOr},
    {"aten.bitwise_or.Tensor", kOr},
    {"aten.bitwise_xor.Scalar", kXor},
    {"aten.bitwise_xor.Tensor", kXor},
    {"aten.__and__.Scalar", kAnd},
    {"aten.__and__.Tensor", kAnd},
    {"aten.__or__.Scalar", kOr},
    {"aten.__or__.Tensor", kOr},
    {"aten.__xor__.Scalar", kXor},
    {"aten.__xor__.Tensor", kXor},
    {"aten.ceil.default", unary<ceil>},
    {"aten.clamp.Tensor", one<clamped>},
    {"aten.clamp.default", one<clamped>},
    {"aten.clamp_min.default", one<clamped>},
    {"aten.clamp_max.default", one<clamped>},
    {"aten.clone.default", one<same>},
    {"aten.contiguous.default", one<same>},
    {"aten.cos.default", real_unary<cos>},
    {"aten.cosh.default", real_unary<cosh>},
    {"aten.detach.default", one<same>},
    {"aten.div.Scalar", one<divided>},
    {"aten.div.Scalar_mode", one<divided>},
    {"aten.div.Tensor", one<divided>},
    {"aten.div.Tensor_mode", one<divided>},
    {"aten.dropout.default", one<dropped>},
    {"aten.elu.default", one<exponential_linear>},
    {"aten.eq.Scalar", binary<eq>},
    {"aten.eq.Tensor", binary<eq>},
    {"aten.erf.default", real_unary<erf>},
    {"aten.exp.default", real_unary<exp>},
    {"aten.exp2.default", real_unary<exp2>},
    {"aten.expm1.default", real_unary<expm1>},
    {"aten.feature_dropout.default", one<dropped>},
    {"aten.floor.default", unary<floor>},
    {"aten.floor_divide.default", binary<floordiv>},
    {"aten.floor_divide.Scalar", binary<floordiv>},
    {"aten.fmod.Scalar", binary<fmod>},
    {"aten.fmod.Tensor", binary<fmod>},
    {"aten.ge.Scalar", binary<ge>},
    {"aten.ge.Tensor", binary<ge>},
    {"aten.gelu.default", one<approximated_gelu>},
    {"aten.glu.default", one<halves_gated>},
    {"aten.gt.Scalar", binary<gt>},
    {"aten.gt.Tensor", binary<gt>},
    {"aten.hardsigmoid.default", unary<hardsigmoid>},
    {"aten.hardswish.default", unary<hardswish>},
    {"aten.hardtanh.default", one<hard_tanh>},
    {"aten.isfinite.default", unary<isfinite>},
    {"aten.isinf.default", unary<isinf>},
    {"aten.isnan.default", unary<isnan>},
    {"aten.le.Scalar", binary<le>},
    {"aten.le.Tensor", binary<le>},
    {"aten.leaky_relu.default", one<leaky>},
    {"aten.lerp.Scalar", one<between>},
    {"aten.lerp.Tensor", one<between>},
    {"aten.lift_fresh_copy.default", one<same>},
    {"aten.log.default", real_unary<log>},
    {"aten.log10.default", real_unary<log10>},
    {"aten.log1p.default", real_unary<log1p>},
    {"aten.log2.default", real_unary<log2>},
    {"aten.log_sigmoid.default", unary<logsigmoid>},
    {"aten.logical_and.default", binary<logical_and>},
    {"aten.logical_not.default", unary<logical_not>},
    {"aten.logical_or.default", binary<logical_or>},
    {"aten.logical_xor.default", binary<logical_xor>},
    {"aten.lt.Scalar", binary<lt>},
    {"aten.lt.Tensor", binary<lt>},
    {"aten.masked_fill.Scalar", one<filled>},
    {"aten.masked_fill.Tensor", one<filled>},
    {"aten.maximum.default", binary<maximum>},
    {"aten.max.other", binary<maximum>},
    {"aten.minimum.default", binary<minimum>},
    {"aten.min.other", binary<minimum>},
    {"aten.mish.default", unary<mish>},
    {"aten.mul.Scalar", one<times>},
    {"aten.mul.Tensor", one<times>},
    {"aten.multiply.Scalar", one<times>},
    {"aten.multiply.Tensor", one<times>},
    {"aten.nan_to_num.default", one<nan_replaced>},
    {"aten.ne.Scalar", binary<ne>},
    {"aten.ne.Tensor", binary<ne>},
    {"aten.neg.default", unary<neg>},
    {"aten.pow.Scalar", one<power_of_scalar>},
    {"aten.pow.Tensor_Scalar", one<power>},
    {"aten.pow.Tensor_Tensor", one<power>},
    {"aten.prelu.default", one<parametric_relu>},
    {"aten.reciprocal.default", real_unary<reciprocal>},
    {"aten.relu.default", unary<relu>},
    {"aten.relu6.default", unary<relu6>},
    {"aten.remainder.Scalar", binary<remainder>},
    {"aten.remainder.Tensor", binary<remainder>},
    {"aten.round.default", unary<round>},
    {"aten.rsqrt.default", real_unary<rsqrt>},
    {"aten.rsub.Scalar", one<reversed_minus>},
    {"aten.selu.default", unary<selu>},
    {"aten.sigmoid.default", real_unary<sigmoid>},
    {"aten.sign.default", unary<sign>},
    {"aten.silu.default", unary<silu>},
    {"aten.sin.default", real_unary<sin>},
    {"aten.sinh.default", real_unary<sinh>},
    {"aten.softplus.default", one<soft_plus>},
    {"aten.softsign.default", real_unary<softsign>},
    {"aten.sqrt.default", real_unary<sqrt>},
    {"aten.square.default", unary<square>},
    {"aten.sub.Scalar", one<minus>},
    {"aten.sub.Tensor", one<minus>},
    {"aten.tan.default", real_unary<tan>},
    {"aten.tanh.default", real_unary<tanh>},
    {"aten.tanhshrink.default", real_unary<tanhshrink>},
    {"aten.to.device", one<converted>},
    {"aten.to.dtype", one<converted>},
    {"aten.to.dtype_layout", one<converted>},
    {"aten._to_copy.default", one<converted>},
    {"aten.trunc.default", unary<trunc>},
    {"aten.type_as.default", one<as_type_of>},
    {"aten.where.Scalar", one<chosen>},
    {"aten.where.ScalarOther", one<chosen>},
    {"aten.where.ScalarSelf", one<chosen>},
    {"aten.where.self", one<chosen>},
};

}  // namespace

const Operators& elementwise_operators() { return kElementwiseOperators; }

}  // namespace genesis::models::pt2
