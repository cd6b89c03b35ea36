// Ops that compute element by element.
#include <map>

#include "models/formats/onnx/export/rules.h"
#include "schema/ops/elementwise/cast.h"
#include "schema/ops/elementwise/elementwise.h"
#include "schema/ops/elementwise/elementwise_rules.h"

namespace genesis::models::onnx {
namespace {

// The operator of ONNX with the same formula, for ops of one operand.
const char* unary_of(std::string_view op) {
  static const std::map<std::string_view, const char*> kNames = {{"abs", "Abs"},
                                                                 {"acos", "Acos"},
                                                                 {"asin", "Asin"},
                                                                 {"atan", "Atan"},
                                                                 {"ceil", "Ceil"},
                                                                 {"cos", "Cos"},
                                                                 {"cosh", "Cosh"},
                                                                 {"erf", "Erf"},
                                                                 {"exp", "Exp"},
                                                                 {"floor", "Floor"},
                                                                 {"log", "Log"},
                                                                 {"mish", "Mish"},
                                                                 {"neg", "Neg"},
                                                                 {"relu", "Relu"},
                                                                 {"round", "Round"},
                                                                 {"sign", "Sign"},
                                                                 {"sin", "Sin"},
                                                                 {"sinh", "Sinh"},
                                                                 {"sqrt", "Sqrt"},
                                                                 {"tan", "Tan"},
                                                                 {"tanh", "Tanh"},
                                                                 {"isnan", "IsNaN"},
                                                                 {"sigmoid", "Sigmoid"},
                                                                 {"isinf", "IsInf"},
                                                                 {"hardswish", "HardSwish"},
                                                                 {"reciprocal", "Reciprocal"}};
  return kNames.at(op);
}
const char* binary_of(std::string_view op) {
  static const std::map<std::string_view, const char*> kNames = {
      {"add", "Add"},         {"div", "Div"},        {"eq", "Equal"}, {"ge", "GreaterOrEqual"},
      {"gt", "Greater"},      {"le", "LessOrEqual"}, {"lt", "Less"},  {"maximum", "Max"},
      {"minimum", "Min"},     {"mul", "Mul"},        {"pow", "Pow"},  {"sub", "Sub"},
      {"logical_and", "And"}, {"logical_or", "Or"}};
  return kNames.at(op);
}

// Operands in the dtype in which the op computes: that of its result.
Out operand(Translation& t, size_t i = 0) { return t.e.cast(t.in(i), t.result().dtype); }

Out unary(Translation& t) { return t.e.add(unary_of(t.op()), {operand(t)}); }
Out predicate(Translation& t) {
  const Out x = is_float(t.in().dtype) ? t.in() : t.e.cast(t.in(), DType::f32);
  return t.e.add(unary_of(t.op()), {x}, "", DType::boolean);
}
Out binary(Translation& t) { return t.e.add(binary_of(t.op()), {operand(t, 0), operand(t, 1)}); }

std::vector<Out> promoted(Translation& t) {
  const TensorType types[] = {t.type(0), t.type(1)};
  const DType dtype = elementwise::promote_operands(types);
  return {t.e.cast(t.in(0), dtype), t.e.cast(t.in(1), dtype)};
}
Out equal(Translation& t) { return t.e.add("Equal", promoted(t), "", DType::boolean); }
Out unequal(Translation& t) { return t.e.add("Not", {equal(t)}); }
Out comparison(Translation& t) {
  std::vector<Out> operands = promoted(t);
  if (operands[0].dtype == DType::boolean)
    for (Out& operand : operands) operand = t.e.cast(operand, DType::i32);
  return t.e.add(binary_of(t.op()), operands, "", DType::boolean);
}
Out truth(Translation& t, size_t i) { return t.e.cast(t.in(i), DType::boolean); }
Out logical(Translation& t) { return t.e.add(binary_of(t.op()), {truth(t, 0), truth(t, 1)}); }
Out inverse(Translation& t) { return t.e.add("Not", {truth(t, 0)}); }

Out finite(Translation& t) {
  const Out x = is_float(t.in().dtype) ? t.in() : t.e.cast(t.in(), DType::f32);
  const Out infinite = t.e.add("IsInf", {x}, "", DType::boolean),
            nan = t.e.add("IsNaN", {x}, "", DType::boolean);
  return t.e.add("Not", {t.e.add("Or", {infinite, nan})});
}

// floor(a / b); integers are divided toward zero by ONNX, so that their remainder is taken away first.
Out floor_quotient(Translation& t) {
  const Out a = operand(t, 0), b = operand(t, 1);
  if (is_float(a.dtype)) return t.e.add("Floor", {t.e.add("Div", {a, b})});
  return t.e.add("Div", {t.e.add("Sub", {a, t.e.add("Mod", {a, b})}), b});
}
Out remainder_of(Translation& t) {
  const Out a = operand(t, 0), b = operand(t, 1);
  if (!is_float(a.dtype)) return t.e.add("Mod", {a, b});
  return t.e.add("Sub", {a, t.e.add("Mul", {t.e.add("Floor", {t.e.add("Div", {a, b})}), b})});
}

Out chosen(Translation& t) {
  const Out condition = t.in(0), yes = operand(t, 1), no = operand(t, 2);
  if (t.result().dtype != DType::boolean) return t.e.add("Where", {condition, yes, no}, "", t.result().dtype);
  // onnxruntime has no Where of bools: (condition and yes) or (not condition and no)
  const Out otherwise = t.e.add("And", {t.e.add("Not", {condition}), no});
  return t.e.add("Or", {t.e.add("And", {condition, yes}), otherwise});
}
Out converted(Translation& t) {
  const Out x = t.in();
  return x.dtype == t.result().dtype ? t.e.add("Identity", {x}) : t.e.cast(x, t.result().dtype);
}

Out square_of(Translation& t) { return t.e.add("Mul", {operand(t), operand(t)}); }
Out reciprocal_root(Translation& t) { return t.e.add("Reciprocal", {t.e.add("Sqrt", {operand(t)})}); }
Out log_of_more(Translation& t) {
  return t.e.add("Log", {t.e.add("Add", {operand(t), t.e.number(1, t.result().dtype)})});
}
Out exp_less_one(Translation& t) {
  return t.e.add("Sub", {t.e.add("Exp", {operand(t)}), t.e.number(1, t.result().dtype)});
}
Out silu(Translation& t) { return silu_of(t.e, operand(t)); }
Out gelu_rule(Translation& t) {
  const bool is_tanh = t.as<ops::Gelu>().approximate != GeluKind::kErf;
  return t.e.add("Gelu", {operand(t)}, onnx_attribute("approximate", std::string(is_tanh ? "tanh" : "none")));
}
Out elu_rule(Translation& t) {
  return t.e.add("Elu", {operand(t)}, onnx_attribute("alpha", t.as<ops::Elu>().alpha));
}
Out leaky(Translation& t) {
  return t.e.add("LeakyRelu", {operand(t)}, onnx_attribute("alpha", t.as<ops::LeakyRelu>().negative_slope));
}
Out softplus_rule(Translation& t) {
  const auto op = t.as<ops::Softplus>();
  const Out x = operand(t), inner = scaled_by(t.e, x, op.beta);
  const Out y = scaled_by(t.e, t.e.add("Softplus", {inner}), 1 / op.beta);
  if (op.threshold >= 20 && x.dtype != DType::f64) return y;  // beyond it the two are equal in f32
  const Out is_far = t.e.add("Greater", {inner, t.e.number(op.threshold, x.dtype)}, "", DType::boolean);
  return t.e.add("Where", {is_far, x, y}, "", x.dtype);
}
Out clamped(Translation& t) {
  const auto op = t.as<ops::Clamp>();
  const Out x = operand(t);
  return t.e.add("Clip", {x, t.e.number(op.min, x.dtype), t.e.number(op.max, x.dtype)});
}

}  // namespace

Out scaled_by(Emitter& e, const Out& x, double factor) {
  return factor == 1 ? x : e.add("Mul", {x, e.number(factor, x.dtype)});
}
Out silu_of(Emitter& e, const Out& x) { return e.add("Mul", {x, e.add("Sigmoid", {x})}); }

namespace {

const OpRules kElementwiseRules = {
    {"abs", single<unary>},
    {"acos", single<unary>},
    {"add", single<binary>},
    {"asin", single<unary>},
    {"atan", single<unary>},
    {"cast", single<converted>},
    {"ceil", single<unary>},
    {"clamp", single<clamped>},
    {"cos", single<unary>},
    {"cosh", single<unary>},
    {"div", single<binary>},
    {"elu", single<elu_rule>},
    {"eq", single<equal>},
    {"erf", single<unary>},
    {"exp", single<unary>},
    {"expm1", single<exp_less_one>},
    {"floor", single<unary>},
    {"floordiv", single<floor_quotient>},
    {"ge", single<comparison>},
    {"gelu", single<gelu_rule>},
    {"gt", single<comparison>},
    {"hardswish", single<unary>},
    {"isfinite", single<finite>},
    {"isinf", single<predicate>},
    {"isnan", single<predicate>},
    {"le", single<comparison>},
    {"leaky_relu", single<leaky>},
    {"log", single<unary>},
    {"log1p", single<log_of_more>},
    {"logical_and", single<logical>},
    {"logical_not", single<inverse>},
    {"logical_or", single<logical>},
    {"lt", single<comparison>},
    {"maximum", single<binary>},
    {"minimum", single<binary>},
    {"mish", single<unary>},
    {"mul", single<binary>},
    {"ne", single<unequal>},
    {"neg", single<unary>},
    {"pow", single<binary>},
    {"reciprocal", single<unary>},
    {"relu", single<unary>},
    {"remainder", single<remainder_of>},
    {"round", single<unary>},
    {"rsqrt", single<reciprocal_root>},
    {"sigmoid", single<unary>},
    {"sign", single<unary>},
    {"silu", single<silu>},
    {"sin", single<unary>},
    {"sinh", single<unary>},
    {"softplus", single<softplus_rule>},
    {"sqrt", single<unary>},
    {"square", single<square_of>},
    {"sub", single<binary>},
    {"tan", single<unary>},
    {"tanh", single<unary>},
    {"where", single<chosen>},
};

}  // namespace

const OpRules& elementwise_rules() { return kElementwiseRules; }

}  // namespace genesis::models::onnx
