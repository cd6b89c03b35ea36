// Operators that reduce axes, and those that sort or accumulate along one.
#include "builder/functions.h"
#include "models/formats/pt2/operators.h"
#include "schema/core/error.h"
#include "schema/ops/elementwise/cast.h"
#include "schema/ops/nn/softmax.h"
#include "schema/ops/tensor/sort.h"

namespace genesis::models::pt2 {
namespace {

// The axes of a reduction; none given, or an empty list, means all.
AxisList axes_of(Call& call) {
  if (!call.has("dim")) return {};
  if (call.is_list("dim")) return call.integers("dim");
  return AxisList(call.integer("dim"));
}
// `dtype` converts the operand first.
Value operand_of(Call& call) {
  const Value x = call.tensor("self");
  const auto dtype = call.dtype("dtype");
  return dtype ? cast(x, *dtype) : x;
}

template <Value (*reduce)(Value, const AxisList&, bool)>
Results reduction(Call& call) {
  return std::vector<Value>{reduce(operand_of(call), axes_of(call), call.flag_or("keepdim", false))};
}
// any and all of torch.
template <Value (*reduce)(Value, const AxisList&, bool)>
Results truth(Call& call) {
  return std::vector<Value>{
      cast(reduce(call.tensor("self"), axes_of(call), call.flag_or("keepdim", false)), DType::boolean)};
}

template <Value (*reduce)(Value, const AxisList&, int64_t, bool)>
Results deviation(Call& call) {
  const Value x = call.tensor("self");
  int64_t correction = call.flag_or("unbiased", true) ? 1 : 0;
  if (call.has("correction")) correction = call.scalar("correction").as_integer();
  return std::vector<Value>{reduce(x, axes_of(call), correction, call.flag_or("keepdim", false))};
}

// Without an axis: of all elements.
template <Value (*reduce)(Value, int64_t, bool)>
Results place(Call& call) {
  const Value x = call.tensor("self");
  const bool keeps = call.flag_or("keepdim", false);
  if (call.has("dim")) return std::vector<Value>{reduce(x, call.integer("dim"), keeps)};
  if (keeps) fail("the place among all elements with 'keepdim' is not read");
  return std::vector<Value>{reduce(flatten(x), 0, false)};
}

// The greatest (or least) elements along an axis, and their places.
template <Value (*reduce)(Value, const AxisList&, bool), Value (*find)(Value, int64_t, bool)>
Results extreme(Call& call) {
  const Value x = call.tensor("self");
  const int64_t axis = call.integer("dim");
  const bool keeps = call.flag_or("keepdim", false);
  return std::vector<Value>{reduce(x, axis, keeps), find(x, axis, keeps)};
}

Value euclidean_norm(Call& call) {
  const Value x = operand_of(call);
  const double order = call.number_or(call.has("p") ? "p" : "ord", 2);
  const AxisList axes = axes_of(call);
  const bool keeps = call.flag_or("keepdim", false);
  if (order == 2) return norm(x, axes, keeps);
  if (order == 1) return sum(abs(x), axes, keeps);
  fail("a norm of order {} is not read: expected 1 or 2", order);
}

Value running_sum(Call& call) {
  Value x = operand_of(call);
  if (!is_float(x.dtype())) x = cast(x, DType::i64);
  return cumsum(x, call.integer("dim"));
}

Results greatest(Call& call) {
  const Value x = call.tensor("self");
  const auto [values, indices] =
      topk(x, call.integer("k"), call.integer_or("dim", -1), call.flag_or("largest", true));
  call.flag_or("sorted", true);
  return std::vector<Value>{values, indices};
}
Results sorted(Call& call) {
  const Value x = call.tensor("self");
  call.flag_or("stable", true);  // ours always is
  const auto [values, indices] = sort(x, call.integer_or("dim", -1), call.flag_or("descending", false));
  return std::vector<Value>{values, indices};
}
Value sorted_places(Call& call) {
  call.flag_or("stable", true);
  return argsort(call.tensor("self"), call.integer_or("dim", -1), call.flag_or("descending", false));
}

template <Value (*function)(Value, int64_t)>
Results along_axis(Call& call) {
  call.must_be("half_to_float", false);
  return std::vector<Value>{function(operand_of(call), call.integer("dim"))};
}

}  // namespace

const Operators& reduction_operators() {
  static const Operators kOperators = {
      {"aten.all.default", truth<all>},
      {"aten.all.dim", truth<all>},
      {"aten.amax.default", reduction<amax>},
      {"aten.amin.default", reduction<amin>},
      {"aten.any.default", truth<any>},
      {"aten.any.dim", truth<any>},
      {"aten.argmax.default", place<argmax>},
      {"aten.argmin.default", place<argmin>},
      {"aten.argsort.default", one<sorted_places>},
      {"aten.argsort.stable", one<sorted_places>},
      {"aten.cumsum.default", one<running_sum>},
      {"aten.linalg_vector_norm.default", one<euclidean_norm>},
      {"aten.log_softmax.int", along_axis<log_softmax>},
      {"aten._log_softmax.default", along_axis<log_softmax>},
      {"aten.logsumexp.default", reduction<logsumexp>},
      {"aten.max.default", reduction<max>},
      {"aten.max.dim", extreme<max, argmax>},
      {"aten.mean.default", reduction<mean>},
      {"aten.mean.dim", reduction<mean>},
      {"aten.min.default", reduction<min>},
      {"aten.min.dim", extreme<min, argmin>},
      {"aten.norm.ScalarOpt_dim", one<euclidean_norm>},
      {"aten.prod.default", reduction<prod>},
      {"aten.prod.dim_int", reduction<prod>},
      {"aten.softmax.int", along_axis<softmax>},
      {"aten._softmax.default", along_axis<softmax>},
      {"aten.sort.default", sorted},
      {"aten.sort.stable", sorted},
      {"aten.std.correction", deviation<stddev>},
      {"aten.std.default", deviation<stddev>},
      {"aten.std.dim", deviation<stddev>},
      {"aten.sum.default", reduction<sum>},
      {"aten.sum.dim_IntList", reduction<sum>},
      {"aten.topk.default", greatest},
      {"aten.var.correction", deviation<var>},
      {"aten.var.default", deviation<var>},
      {"aten.var.dim", deviation<var>},
  };
  return kOperators;
}

}  // namespace genesis::models::pt2
