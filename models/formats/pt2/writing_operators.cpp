// Operators that write a part of a tensor. Those that write over a tensor in place are read as their functional forms: the importer then
// gives the tensor the result as its value (sharing.h).
#include "builder/functions.h"
#include "models/formats/pt2/operators.h"
#include "schema/core/error.h"
#include "schema/ops/create.h"
#include "schema/ops/elementwise/cast.h"
#include "schema/ops/elementwise/elementwise.h"
#include "schema/ops/tensor/index.h"
#include "schema/ops/tensor/layout.h"
#include "schema/ops/tensor/slice.h"

namespace genesis::models::pt2 {
namespace {

// Returns `source` in the dtype of x, broadcast to `shape`.
Value fitted(Value source, Value x, const Shape& shape) { return expand(cast(source, x.dtype()), shape); }

Value copied(Call& call) {
  const Value x = call.tensor("self");
  return fitted(call.tensor("src"), x, x.shape());
}
Value number_of(Call& call, Value x) {
  return call.is_tensor("value") ? call.tensor("value") : scalar_like(x, call.scalar("value"));
}
Value filled_with(Call& call) {
  const Value x = call.tensor("self");
  return fitted(number_of(call, x), x, x.shape());
}
Value made_zero(Call& call) { return zeros_like(call.tensor("self")); }

// Returns x with `value` in the place of the elements [begin, begin + the size of value) along an axis.
Value with_slice(Value x, Value value, int axis, const Dim& begin) {
  const Dim end = begin + value.dim(axis), behind = x.dim(axis) - end;
  std::vector<Value> pieces;
  if (!(begin == Dim(0))) pieces.push_back(narrow(x, axis, 0, begin));
  pieces.push_back(value);
  if (!(behind == Dim(0))) pieces.push_back(narrow(x, axis, end, behind));
  return concat(pieces, axis);
}

Value slice_scattered(Call& call) {
  const Value x = call.tensor("self");
  const int axis = normalize_axis(call.integer_or("dim", 0), x.rank(), "dim");
  Shape shape = x.shape();
  const SliceBounds bounds = slice_bounds(call, x.dim(axis));
  if (bounds.step != 1) fail("a slice in steps of {} is not written", bounds.step);
  const Value source = call.tensor("src");
  const Dim length = bounds.end - bounds.begin;
  if (length.is_constant() && length.value() <= 0) return x;  // the slice is empty
  shape[axis] = length;
  return with_slice(x, fitted(source, x, shape), axis, bounds.begin);
}
Value select_scattered(Call& call) {
  const Value x = call.tensor("self"), source = call.tensor("src");
  const int axis = normalize_axis(call.integer("dim"), x.rank(), "dim");
  const Dim given = call.size("index"),
            at = given.is_constant() && given.value() < 0 ? x.dim(axis) + given : given;
  return with_slice(x, unsqueeze(cast(source, x.dtype()), axis), axis, at);
}

// x[indices] = values, or += values. An index of bools, which selects elements of x itself, takes one number.
Value put_at(Call& call) {
  const Value x = call.tensor("self"), values = cast(call.tensor("values"), x.dtype());
  const bool adds = call.flag_or("accumulate", false);
  const std::vector<Value> given = call.tensors("indices");
  if (given.size() == 1 && given[0] && given[0].dtype() == DType::boolean) {
    if (!(values.shape().numel() == Dim(1)) || adds)
      fail(
          "an index of bools with more than one value is not read: the number of values depends on the data");
    Value mask = given[0];
    while (mask.rank() < x.rank()) mask = unsqueeze(mask, -1);
    return where(mask, reshape(values, {}), x);
  }
  return write_at_indices(call, x, values, adds);
}
Value filled_at(Call& call) {
  const Value x = call.tensor("self"), index = flatten(cast(call.tensor("index"), DType::i64));
  const int axis = normalize_axis(call.integer("dim"), x.rank(), "dim");
  Shape column(std::vector<Dim>(static_cast<size_t>(x.rank()), Dim(1))), rows = x.shape();
  column[axis] = rows[axis] = index.dim(0);
  const Value own = where(index < 0, index + dim_value(call.g(), x.dim(axis), DType::i64), index);
  return scatter(x, axis, expand(reshape(own, column), rows), fitted(number_of(call, x), x, rows));
}
Value masked_values(Call& call) {
  const Value x = call.tensor("self"), mask = expand(call.tensor("mask"), x.shape());
  const Value source = cast(flatten(call.tensor("source")), x.dtype());
  if (source.dim(0) == Dim(0)) return x;  // then no element is masked
  // Element i of the source goes to the place of the i-th true.
  const Value number = cumsum(cast(flatten(mask), DType::i64), 0) - 1;
  const Value taken = index_select(source, 0, clamp(number, 0, source.dim(0).value() - 1));
  return where(mask, reshape(taken, x.shape()), x);
}

}  // namespace

Value try_write_slice(Call& call, Value x, Value value) {
  if (call.target().find(".select.") != std::string::npos) {
    const int axis = normalize_axis(call.integer_or("dim", 0), x.rank(), "dim");
    const Dim given = call.size("index"),
              at = given.is_constant() && given.value() < 0 ? x.dim(axis) + given : given;
    return with_slice(x, unsqueeze(value, axis), axis, at);
  }
  const int axis = normalize_axis(call.integer_or("dim", 0), x.rank(), "dim");
  const SliceBounds bounds = slice_bounds(call, x.dim(axis));
  return bounds.step == 1 ? with_slice(x, value, axis, bounds.begin) : Value{};
}

const Operators& writing_operators() {
  static const Operators kOperators = {
      {"aten.copy.default", one<copied>},
      {"aten.fill.Scalar", one<filled_with>},
      {"aten.fill.Tensor", one<filled_with>},
      {"aten.index_fill.int_Scalar", one<filled_at>},
      {"aten.index_fill.int_Tensor", one<filled_at>},
      {"aten.index_put.default", one<put_at>},
      {"aten.masked_scatter.default", one<masked_values>},
      {"aten.select_scatter.default", one<select_scattered>},
      {"aten.slice_scatter.default", one<slice_scattered>},
      {"aten.zero.default", one<made_zero>},
  };
  return kOperators;
}

}  // namespace genesis::models::pt2
