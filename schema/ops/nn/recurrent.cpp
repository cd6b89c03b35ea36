#include "schema/ops/nn/recurrent.h"

#include "schema/ops/create.h"
#include "schema/ops/elementwise/cast.h"
#include "schema/ops/elementwise/elementwise.h"
#include "schema/ops/gradient.h"
#include "schema/ops/nn/matmul.h"
#include "schema/ops/tensor/layout.h"
#include "schema/ops/tensor/reduce.h"
#include "schema/ops/tensor/reshape.h"
#include "schema/ops/tensor/slice.h"

namespace genesis {

int64_t gates_of(RecurrentCell cell) {
  return cell == RecurrentCell::kLstm ? 4 : cell == RecurrentCell::kGru ? 3 : 1;
}

namespace ops {
namespace {

bool is_lstm(RecurrentCell cell) { return cell == RecurrentCell::kLstm; }
bool has_extra(RecurrentCell cell) { return gates_of(cell) > 1; }
// Returns how many values of a step the gradient reads for each element of the state.
int64_t saved_values(RecurrentCell cell) { return is_lstm(cell) ? 5 : cell == RecurrentCell::kGru ? 4 : 1; }

void check_shape(std::string_view name, const TensorType& type, DType dtype, const Shape& expected) {
  if (type.dtype != dtype || !(type.shape == expected))
    fail("recurrent: {} is {}, expected {}", name, type.to_string(), TensorType{dtype, expected}.to_string());
}

// Checks weight, h, then c or bias, then lengths; `time_of` is the type of a value [time, batch, ...].
void check_states(RecurrentCell cell, Types in, const TensorType& time_of, bool has_lengths) {
  const TensorType& weight = in[0];
  if ((weight.dtype != DType::f32 && weight.dtype != DType::f64) || weight.shape.rank() != 2)
    fail("recurrent: weight must be f32 or f64 [gates * hidden, hidden], got {}", weight.to_string());
  const Dim hidden = weight.shape[1], batch = time_of.shape[1];
  check_shape("weight", weight, weight.dtype, {hidden * gates_of(cell), hidden});
  check_shape("h", in[1], weight.dtype, {batch, hidden});
  if (is_lstm(cell)) check_shape("c", in[2], weight.dtype, {batch, hidden});
  if (cell == RecurrentCell::kGru) check_shape("bias", in[2], weight.dtype, {hidden});
  if (has_lengths) check_shape("lengths", in[has_extra(cell) ? 3 : 2], DType::i64, {batch});
}

// The products of the state with the weights; `times` of them for each step.
double products(const TensorType& x, const TensorType& weight, double times) {
  return 2 * times * row_count(x) * row_length(weight) * static_cast<double>(axis_size(weight, 0));
}

// Returns the state before each step, [time, batch, hidden].
Value states_before(const Recurrent& op, Value h, Value y, Value lengths) {
  const Dim time = y.dim(0);
  const Value first = reshape(h, {1, h.dim(0), h.dim(1)});
  if (!op.reverse) return narrow(concat({first, y}, 0), 0, 0, time);
  const Value next = narrow(concat({y, first}, 0), 0, 1, time);
  if (!lengths) return next;
  const Value step = reshape(arange(*y.graph, time), {time, 1, 1});
  return where(step == reshape(lengths, {1, h.dim(0), 1}) - 1, first, next);
}

}  // namespace

std::vector<TensorType> Recurrent::infer(Types in) const {
  const size_t states = has_extra(cell) ? 4 : 3;
  if (in.size() < states || in.size() > states + 1)
    fail("recurrent: {} inputs for a cell that takes {}, and lengths or none", in.size(), states);
  const TensorType& x = in[0];
  if (x.shape.rank() != 3) fail("recurrent: x must be [time, batch, gates * hidden], got {}", x.to_string());
  check_states(cell, in.subspan(1), x, in.size() > states);
  const Dim hidden = in[1].shape[1];
  check_shape("x", x, in[1].dtype, {x.shape[0], x.shape[1], hidden * gates_of(cell)});
  std::vector<TensorType> out = {{x.dtype, {x.shape[0], x.shape[1], hidden}}, in[2]};
  if (is_lstm(cell)) out.push_back(in[2]);
  if (with_gates) out.push_back({x.dtype, {x.shape[0], x.shape[1], hidden * saved_values(cell)}});
  return out;
}

Cost Recurrent::cost(Types in, Types out) const {
  return {.bytes = bytes_moved(in, out), .flops = products(in[0], in[1], 1)};
}

double Recurrent::sum_length(Types in, Types) const { return row_length(in[1]); }

void Recurrent::grad(GradientContext& g) const {
  Recurrent saving = *this;
  saving.with_gates = true;
  const int states = is_lstm(cell) ? 3 : 2, lengths_at = has_extra(cell) ? 4 : 3;
  const bool has_lengths = g.num_inputs() > lengths_at;
  const Value gates = g.extra_output(to_attributes(saving), states);
  std::vector<Value> inputs;
  for (int i = 1; i < g.num_inputs(); ++i) inputs.push_back(g.input(i));
  inputs.push_back(g.output(0)), inputs.push_back(gates);
  for (int i = 0; i < states; ++i) inputs.push_back(g.dy(i) ? g.dy(i) : zeros_like(g.output(i)));
  const std::vector<Value> gradients = emit_node(RecurrentGrad{cell, reverse, has_lengths}, inputs);
  g.set(0, gradients[0]), g.set(2, gradients[1]);
  if (is_lstm(cell)) g.set(3, gradients[2]);
  Value of_products = gradients[0];
  if (cell == RecurrentCell::kGru) {  // the reset gate scales the product of the new gate
    const Dim hidden = g.input(1).dim(1);
    const Value of_new = narrow(gradients[0], 2, hidden * 2, hidden) * narrow(gates, 2, 0, hidden);
    of_products = concat({narrow(gradients[0], 2, 0, hidden * 2), of_new}, 2);
    if (g.wants(3)) g.set(3, sum(of_new, {0, 1}));
  }
  if (!g.wants(1)) return;
  const Value before =
      states_before(*this, g.input(2), g.output(0), has_lengths ? g.input(lengths_at) : Value{});
  const Dim rows = before.dim(0) * before.dim(1);
  g.set(1, matmul(reshape(of_products, {rows, of_products.dim(2)}), reshape(before, {rows, before.dim(2)}),
                  true, false));
}

std::vector<TensorType> RecurrentGrad::infer(Types in) const {
  const size_t given = 2 + (has_extra(cell) ? 1 : 0) + (has_lengths ? 1 : 0), states = is_lstm(cell) ? 3 : 2;
  if (in.size() != given + 2 + states)
    fail("recurrent_grad: {} inputs, expected {}", in.size(), given + 2 + states);
  const TensorType& y = in[given];
  if (y.shape.rank() != 3) fail("recurrent_grad: y must be [time, batch, hidden], got {}", y.to_string());
  check_states(cell, in, y, has_lengths);
  const Dim hidden = in[0].shape[1], time = y.shape[0], batch = y.shape[1];
  const DType dtype = in[0].dtype;
  check_shape("y", y, dtype, {time, batch, hidden});
  check_shape("the values of the gates", in[given + 1], dtype, {time, batch, hidden * saved_values(cell)});
  check_shape("dy", in[given + 2], dtype, y.shape);
  for (size_t i = 1; i < states; ++i)
    check_shape("a gradient of a state", in[given + 2 + i], dtype, in[1].shape);
  std::vector<TensorType> out = {{dtype, {time, batch, hidden * gates_of(cell)}}, in[1]};
  if (is_lstm(cell)) out.push_back(in[1]);
  return out;
}

Cost RecurrentGrad::cost(Types in, Types out) const {
  return {.bytes = bytes_moved(in, out), .flops = products(out[0], in[0], 1)};
}

double RecurrentGrad::sum_length(Types in, Types) const { return static_cast<double>(axis_size(in[0], 0)); }

}  // namespace ops

std::span<const OpDef* const> recurrent_ops() { return kOpDefs<ops::Recurrent, ops::RecurrentGrad>; }

RecurrentResult recurrent(RecurrentCell cell, Value x, Value weight, Value h, Value extra, Value lengths,
                          bool reverse) {
  const DType dtype = promote(x.dtype(), DType::f32);
  std::vector<Value> inputs = {cast(x, dtype), cast(weight, dtype), cast(h, dtype)};
  if (extra) inputs.push_back(cast(extra, dtype));
  if (lengths) inputs.push_back(cast(lengths, DType::i64));
  const std::vector<Value> results = emit_node(ops::Recurrent{cell, reverse, false}, inputs);
  RecurrentResult result{cast(results[0], x.dtype()), cast(results[1], x.dtype()), {}};
  if (results.size() > 2) result.c = cast(results[2], x.dtype());
  return result;
}

}  // namespace genesis
