#include "schema/ops/tensor/dynamic_slice.h"

#include "schema/ops/create.h"
#include "schema/ops/elementwise/cast.h"
#include "schema/ops/elementwise/elementwise.h"
#include "schema/ops/gradient.h"
#include "schema/ops/tensor/index.h"
#include "schema/ops/tensor/layout.h"
#include "schema/ops/tensor/reshape.h"
#include "schema/ops/tensor/slice_rules.h"

namespace genesis {
namespace {

void check_scalar_index(const TensorType& start, std::string_view op) {
  const bool integer = start.dtype == DType::i32 || start.dtype == DType::i64;
  if (!integer || !(start.shape.numel() == Dim(1)))
    fail("{} takes its start as one i32 or i64, got {}", op, start.to_string());
}

// Checks the start: one index, or one per row of axis 0.
void check_starts(const TensorType& start, const Shape& shape, int axis) {
  const bool integer = start.dtype == DType::i32 || start.dtype == DType::i64;
  const bool per_row = axis > 0 && start.shape == Shape{shape[0]};
  if (integer && (per_row || start.shape.numel() == Dim(1))) return;
  fail("dynamic_update_slice takes its start as one i32 or i64{}, got {}",
       axis > 0 ? fmt::format(", or as {} of them, one for each row", shape[0].to_string()) : "",
       start.to_string());
}

// Reads x where dynamic_update_slice wrote; zero for the elements that it did not write.
Value read_where_written(Value x, Value update, Value start, Value length, int64_t axis) {
  const int at = normalize_axis(axis, x.rank());
  Shape along(std::vector<Dim>(static_cast<size_t>(x.rank()), Dim(1))), of_row = along;
  along[at] = update.dim(at);
  if (!(start.type().shape.numel() == Dim(1))) of_row[0] = x.dim(0);
  const auto spread = [&](Value v) { return reshape(cast(v, DType::i64), of_row); };
  const Value steps = reshape(arange(*x.graph, update.dim(at)), along);
  const Value last = dim_value(*x.graph, x.dim(at) - (length ? Dim(1) : update.dim(at)));
  const Value first = minimum(maximum(spread(start), 0), last);
  const Value place = minimum(first + steps, dim_value(*x.graph, x.dim(at) - Dim(1)));
  const Value read = gather(x, at, expand(place, update.shape()));
  return length ? where(steps < spread(length), read, zeros_like(read)) : read;
}

}  // namespace

namespace ops {

std::vector<TensorType> DynamicSlice::infer(Types in) const {
  check_scalar_index(in[1], "dynamic_slice");
  Shape shape = in[0].shape;
  const int at = normalize_axis(axis, shape.rank());
  check_slice(0, only_size(length, "length"), 1, shape[at]);
  shape[at] = length[0];
  return {{in[0].dtype, shape}};
}

void DynamicSlice::grad(GradientContext& g) const {
  g.set(0, dynamic_update_slice(zeros_like(g.input(0)), g.dy(), g.input(1), axis));
}

std::vector<TensorType> DynamicUpdateSlice::infer(Types in) const {
  check_same_dtypes(in.first(2), "dynamic_update_slice");
  const Shape& shape = in[0].shape;
  Shape update = in[1].shape;
  const int at = normalize_axis(axis, shape.rank());
  check_starts(in[2], shape, at);
  if (in.size() > 3 && !(in[3] == in[2]))
    fail("dynamic_update_slice: length must be like start {}, got {}", in[2].to_string(), in[3].to_string());
  if (update.rank() == shape.rank()) {
    check_slice(0, update[at], 1, shape[at]);
    update[at] = shape[at];
  }
  if (!(update == shape))
    fail("an update of {} does not fit {}: they may differ along axis {} only", in[1].shape.to_string(),
         shape.to_string(), at);
  return {in[0]};
}

Cost DynamicUpdateSlice::cost(Types in, Types) const {
  return {.bytes = 2 * bytes_moved(in.subspan(1, 1), {})};  // in place in a state, as when a cache grows
}

void DynamicUpdateSlice::grad(GradientContext& g) const {
  const Value update = g.input(1), start = g.input(2), length = g.num_inputs() > 3 ? g.input(3) : Value{};
  if (g.wants(0)) g.set(0, dynamic_update_slice(g.dy(), zeros_like(update), start, axis, length));
  if (!g.wants(1)) return;
  const bool alike = !length && start.type().shape.numel() == Dim(1);
  g.set(1, alike ? dynamic_slice(g.dy(), start, axis, update.dim(axis))
                 : read_where_written(g.dy(), update, start, length, axis));
}

}  // namespace ops

std::span<const OpDef* const> dynamic_slice_ops() { return kOpDefs<ops::DynamicSlice, ops::DynamicUpdateSlice>; }

Value dynamic_slice(Value x, Value start, int64_t axis, Dim length) {
  const ops::DynamicSlice op{normalize_axis(axis, x.rank()), {std::move(length)}};
  return emit(op, {x, start});
}

Value dynamic_update_slice(Value x, Value update, Value start, int64_t axis, Value length) {
  const ops::DynamicUpdateSlice op{normalize_axis(axis, x.rank())};
  std::vector<Value> inputs = {x, update, start};
  if (length) inputs.push_back(length);
  return emit(op, inputs);
}

}  // namespace genesis
