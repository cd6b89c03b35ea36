// Operators that make tensors from nothing, and those that compute with sizes or check them.
#include <cmath>

#include "builder/functions.h"
#include "models/formats/pt2/operators.h"
#include "schema/core/error.h"
#include "schema/ops/elementwise/cast.h"

namespace genesis::models::pt2 {
namespace {

DType dtype_or(Call& call, DType otherwise) { return call.dtype("dtype").value_or(otherwise); }

Value of_zeros(Call& call) { return call.g().zeros(Shape(call.sizes("size")), dtype_or(call, DType::f32)); }
Value of_ones(Call& call) { return call.g().ones(Shape(call.sizes("size")), dtype_or(call, DType::f32)); }
Value of_one_number(Call& call) {
  const Scalar value = call.scalar("fill_value");
  const DType dtype = dtype_or(call, value.is_integer() ? DType::i64 : DType::f32);
  return call.g().full(Shape(call.sizes("size")), value, dtype);
}
Value of_scalar(Call& call) {
  const Scalar value = call.scalar("s");
  return call.g().full({}, value, dtype_or(call, value.is_integer() ? DType::i64 : DType::f32));
}

// Tensors with the shape (like) or the dtype (new) of another one.
template <int value>
Results like(Call& call) {
  const Value x = call.tensor("self");
  return std::vector<Value>{call.g().full(x.shape(), value, dtype_or(call, x.dtype()))};
}
Value of_one_number_like(Call& call) {
  const Value x = call.tensor("self");
  return call.g().full(x.shape(), call.scalar("fill_value"), dtype_or(call, x.dtype()));
}
template <int value>
Results new_with(Call& call) {
  const Value x = call.tensor("self");
  return std::vector<Value>{call.g().full(Shape(call.sizes("size")), value, dtype_or(call, x.dtype()))};
}
Value new_of_one_number(Call& call) {
  const Value x = call.tensor("self");
  return call.g().full(Shape(call.sizes("size")), call.scalar("fill_value"), dtype_or(call, x.dtype()));
}

// Returns true for an argument that is no size.
bool is_real(Call& call, const char* name) {
  try {
    if (call.has(name)) call.size(name);
    return false;
  } catch (const Error&) {
    return true;
  }
}
Value counted_by_reals(Call& call) {
  const auto number = [&](const char* name, double otherwise) { return call.number_or(name, otherwise); };
  const double start = number("start", 0), step = number("step", 1);
  const double length = std::ceil((number("end", 0) - start) / step);
  if (!(length >= 0 && length < 1e9)) fail("it counts {} numbers", length);
  return arange(call.g().graph(), static_cast<int64_t>(length), start, step, dtype_or(call, DType::f32));
}
Value counted(Call& call) {
  if (is_real(call, "start") || is_real(call, "end") || is_real(call, "step")) return counted_by_reals(call);
  const bool has_start = call.has("start");
  const DType dtype = dtype_or(call, DType::i64);
  const Dim end = call.size("end"), start = has_start ? call.size("start") : Dim(0);
  const int64_t step = call.integer_or("step", 1);
  if (step != 1) return call.g().arange(start.value(), end, step, dtype);
  if (start.is_constant()) return arange(call.g().graph(), end - start, start.value(), 1, dtype);
  return arange(call.g().graph(), end - start, 0, 1, dtype) + dim_value(call.g(), start, dtype);
}
Value spaced(Call& call) {
  return call.g().linspace(call.scalar("start").as_double(), call.scalar("end").as_double(),
                           call.integer("steps"), dtype_or(call, DType::f32));
}
Value identity(Call& call) { return call.g().eye(call.integer("n"), dtype_or(call, DType::f32)); }

// --- sizes

Results size_of_axis(Call& call) { return call.tensor("self").dim(call.integer("dim")); }
template <Dim (*compute)(const Dim&, const Dim&)>
Results size_of_two(Call& call) {
  return compute(call.size("a"), call.size("b"));
}
Dim sum_of(const Dim& a, const Dim& b) { return a + b; }
Dim difference_of(const Dim& a, const Dim& b) { return a - b; }
Dim product_of(const Dim& a, const Dim& b) { return a * b; }
Dim quotient_of(const Dim& a, const Dim& b) {
  if (const auto exact = a.divide_exact(b)) return *exact;
  if (b.is_constant() && b.value() > 0) return Dim::floor_div(a, b.value());
  fail("the size {} // {} is not read: expected a positive number as divisor, or an exact quotient",
       a.to_string(), b.to_string());
}

Dim least_of(const Dim& a, const Dim& b) { return Dim::min(a, b); }
Dim greatest_of(const Dim& a, const Dim& b) { return Dim::max(a, b); }
Dim rest_of(const Dim& a, const Dim& b) { return a - quotient_of(a, b) * b; }

// A number that depends on data is no size here. Checks may read it; any other call that does is refused.
Results number_of_data(Call& call) {
  call.ignore_all();
  return std::vector<Value>{};
}
Results negated(Call& call) {
  if (is_real(call, "a")) return number_of_data(call);
  return Dim(0) - call.size("a");
}

// Checks of the exporter. Sizes and dtypes are checked for every value of the file.
Results nothing(Call& call) {
  call.ignore_all();
  return std::vector<Value>{};
}

}  // namespace

const Operators& creation_operators() {
  static const Operators kOperators = {
      {"aten.arange.default", one<counted>},
      {"aten.arange.start", one<counted>},
      {"aten.arange.start_step", one<counted>},
      {"aten.empty_like.default", like<0>},
      {"aten.empty.memory_format", one<of_zeros>},  // its values are any
      {"aten.eye.default", one<identity>},
      {"aten.full.default", one<of_one_number>},
      {"aten.full_like.default", one<of_one_number_like>},
      {"aten.linspace.default", one<spaced>},
      {"aten.new_full.default", one<new_of_one_number>},
      {"aten.new_ones.default", new_with<1>},
      {"aten.new_zeros.default", new_with<0>},
      {"aten.ones.default", one<of_ones>},
      {"aten.ones_like.default", like<1>},
      {"aten.scalar_tensor.default", one<of_scalar>},
      {"aten.zeros.default", one<of_zeros>},
      {"aten.zeros_like.default", like<0>},
  };
  return kOperators;
}

const Operators& size_operators() {
  static const Operators kOperators = {
      {"aten._assert_scalar.default", nothing},
      {"aten._assert_tensor_metadata.default", nothing},
      {"aten.sym_constrain_range_for_size.default", nothing},
      {"aten.sym_size.int", size_of_axis},
      {"aten.item.default", number_of_data},
      {"_operator.add", size_of_two<sum_of>},
      {"_operator.and_", nothing},  // comparisons of sizes lead to checks only
      {"_operator.eq", nothing},
      {"_operator.floordiv", size_of_two<quotient_of>},
      {"_operator.ge", nothing},
      {"_operator.gt", nothing},
      {"_operator.le", nothing},
      {"_operator.lt", nothing},
      {"_operator.mod", size_of_two<rest_of>},
      {"_operator.mul", size_of_two<product_of>},
      {"_operator.ne", nothing},
      {"_operator.neg", negated},
      {"_operator.sub", size_of_two<difference_of>},
      {"torch.sym_max", size_of_two<greatest_of>},
      {"torch.sym_min", size_of_two<least_of>},
  };
  return kOperators;
}

}  // namespace genesis::models::pt2
