// Operators that reduce axes, accumulate along one, or normalize over one: sums, extremes, softmax.
#include <limits>

#include "builder/functions.h"
#include "models/formats/onnx/operators.h"
#include "schema/core/error.h"
#include "schema/ops/elementwise/cast.h"
#include "schema/ops/nn/softmax.h"

namespace genesis::models::onnx {
namespace {

// The axes of a reduction; nothing if nothing is reduced.
std::optional<AxisList> axes_of(Call& call) {
  std::vector<int64_t> axes = call.list_or_input("axes", 1);
  const bool keeps_all = call.attribute("noop_with_empty_axes", 0) != 0;
  if (axes.empty() && keeps_all) return std::nullopt;
  return AxisList(std::move(axes));
}

using Reduce = Value (*)(Value, const AxisList&, bool);
using Map = Value (*)(Value);

Value same(Value x) { return x; }
// before(x) is reduced, and behind() is applied to the result, which has the type of x.
template <Reduce reduce, Map before, Map behind>
Results reduction(Call& call) {
  const Value x = call.tensor(0);
  const auto axes = axes_of(call);
  const bool keeps = call.attribute("keepdims", 1) != 0;
  Value y = before(x);
  if (axes && x.rank() > 0) y = reduce(y, *axes, keeps);
  return {item_of(cast(behind(y), x.dtype()))};
}

Value real_mean(Value x, const AxisList& axes, bool keeps) {
  return mean(is_float(x.dtype()) ? x : cast(x, DType::f64), axes, keeps);
}
Value log_of_sum_of_exp(Value x, const AxisList& axes, bool keeps) {
  return logsumexp(is_float(x.dtype()) ? x : cast(x, DType::f64), axes, keeps);
}
Value square_root(Value x) { return sqrt(is_float(x.dtype()) ? x : cast(x, DType::f64)); }
Value logarithm(Value x) { return log(is_float(x.dtype()) ? x : cast(x, DType::f64)); }
// Returns what a reduction of no elements gives, if x has none along the axes.
std::optional<Value> of_nothing(Value x, const AxisList& axes, bool keeps, double real, int64_t integer) {
  bool is_empty = false;
  for (const int axis : normalize_axes(axes.axes, x.rank())) is_empty |= x.dim(axis) == Dim(0);
  if (!is_empty) return std::nullopt;
  const Shape shape = sum(cast(x, DType::f32), axes, keeps).shape();
  return is_float(x.dtype()) ? full(*x.graph, shape, real, x.dtype())
                             : full(*x.graph, shape, integer, x.dtype());
}
int64_t least_integer(DType dtype) {
  return dtype == DType::u8 ? 0 : std::numeric_limits<int64_t>::min() >> (64 - 8 * size_of(dtype));
}
int64_t greatest_integer(DType dtype) { return dtype == DType::u8 ? 255 : -(least_integer(dtype) + 1); }

constexpr double kInfinity = std::numeric_limits<double>::infinity();

Value greatest_of(Value x, const AxisList& axes, bool keeps) {
  if (const auto none =
          of_nothing(x, axes, keeps, -kInfinity, x.dtype() == DType::boolean ? 0 : least_integer(x.dtype())))
    return *none;
  if (x.dtype() == DType::boolean) return cast(max(cast(x, DType::i32), axes, keeps), DType::boolean);
  return max(x, axes, keeps);
}
Value least_of(Value x, const AxisList& axes, bool keeps) {
  if (const auto none = of_nothing(x, axes, keeps, kInfinity,
                                   x.dtype() == DType::boolean ? 1 : greatest_integer(x.dtype())))
    return *none;
  if (x.dtype() == DType::boolean) return cast(min(cast(x, DType::i32), axes, keeps), DType::boolean);
  return min(x, axes, keeps);
}

template <Value (*find)(Value, int64_t, bool)>
Results place(Call& call) {
  Value x = call.tensor(0);
  const int axis = normalize_axis(call.attribute("axis", 0), x.rank());
  const bool keeps = call.attribute("keepdims", 1) != 0, last = call.attribute("select_last_index", 0) != 0;
  if (!last) return {item_of(find(x, axis, keeps), OnnxElement::kI64)};
  const Value from_end = find(flip(x, {axis}), axis, keeps);
  return {item_of(dim_value(call.graph(), x.dim(axis) - 1) - from_end, OnnxElement::kI64)};
}

// Moves elements by one place along an axis, and puts `first` into the free place.
Value shifted(Value x, int axis, bool reverse, double first) {
  std::vector<int64_t> one(static_cast<size_t>(x.rank())), none = one;
  one[static_cast<size_t>(axis)] = 1;
  const Value rest = narrow(x, axis, reverse ? 1 : 0, x.dim(axis) - 1);
  return pad(rest, reverse ? none : one, reverse ? one : none, first);
}
Value running_sum(Call& call) {
  const Value x = call.tensor(0);
  const int axis = normalize_axis(call.integer(1), x.rank());
  const bool reverse = call.attribute("reverse", 0) != 0, exclusive = call.attribute("exclusive", 0) != 0;
  const Value source = exclusive ? shifted(x, axis, reverse, 0) : x;
  return cast(cumsum(is_float(x.dtype()) ? source : cast(source, DType::i64), axis, reverse), x.dtype());
}
Value running_product(Call& call) {
  const Value x = call.tensor(0);
  const int axis = normalize_axis(call.integer(1), x.rank());
  const bool reverse = call.attribute("reverse", 0) != 0, exclusive = call.attribute("exclusive", 0) != 0;
  Value source = exclusive ? shifted(x, axis, reverse, 1) : x;
  if (reverse) source = flip(source, {axis});
  std::vector<Value> products;
  for (const Value& piece : split_every(source, 1, axis))
    products.push_back(products.empty() ? piece : products.back() * piece);
  const Value all = concat(products, axis);
  return reverse ? flip(all, {axis}) : all;
}

// Before version 13, all axes from `axis` on are taken as one.
template <Value (*function)(Value, int64_t)>
Results along_axis(Call& call) {
  const Value x = call.tensor(0);
  const bool is_flat = call.version() < 13;
  int64_t axis = call.attribute("axis", is_flat ? 1 : -1);
  if (axis < 0) axis += x.rank();
  if (!is_flat) return {item_of(function(x, axis))};
  Dim before = 1, behind = 1;
  for (int64_t i = 0; i < x.rank(); ++i)
    (i < axis ? before : behind) = (i < axis ? before : behind) * x.dim(i);
  return {item_of(reshape(function(reshape(x, {before, behind}), 1), x.shape()))};
}
Value hard_max(Value x, int64_t axis) {
  Shape counts(std::vector<Dim>(static_cast<size_t>(x.rank()), Dim(1)));
  counts[static_cast<int>(axis)] = x.dim(axis);
  return cast(argmax(x, axis, true) == reshape(arange(*x.graph, x.dim(axis)), counts), x.dtype());
}

}  // namespace

const Operators& reduction_operators() {
  static const Operators kOperators = {
      {"ArgMax", place<argmax>},
      {"ArgMin", place<argmin>},
      {"CumProd", one<running_product>},
      {"CumSum", one<running_sum>},
      {"Hardmax", along_axis<hard_max>},
      {"LogSoftmax", along_axis<log_softmax>},
      {"ReduceL1", reduction<sum, abs, same>},
      {"ReduceL2", reduction<sum, square, square_root>},
      {"ReduceLogSum", reduction<sum, same, logarithm>},
      {"ReduceLogSumExp", reduction<log_of_sum_of_exp, same, same>},
      {"ReduceMax", reduction<greatest_of, same, same>, 1},
      {"ReduceMean", reduction<real_mean, same, same>},
      {"ReduceMin", reduction<least_of, same, same>, 1},
      {"ReduceProd", reduction<prod, same, same>},
      {"ReduceSum", reduction<sum, same, same>},
      {"ReduceSumSquare", reduction<sum, square, same>},
      {"Softmax", along_axis<softmax>},
  };
  return kOperators;
}

}  // namespace genesis::models::onnx
