#include "schema/ops/nn/gated_delta.h"

#include "schema/ops/create.h"
#include "schema/ops/elementwise/cast.h"
#include "schema/ops/gradient.h"

namespace genesis {
namespace ops {
namespace {

void check_shape(std::string_view name, const TensorType& type, const TensorType& q, const Shape& expected) {
  if (type.dtype != q.dtype || !(type.shape == expected))
    fail("gated_delta: {} is {}, expected {}", name, type.to_string(),
         TensorType{q.dtype, expected}.to_string());
}

Shape state_shape(Types in) { return {in[0].shape[0], in[0].shape[2], in[0].shape[3], in[2].shape[3]}; }

void check_inputs(Types in) {
  const TensorType &q = in[0], &v = in[2];
  if ((q.dtype != DType::f32 && q.dtype != DType::f64) || q.shape.rank() != 4 || v.shape.rank() != 4)
    fail("gated_delta: q and v must be f32 or f64 [batch, time, heads, size], got {} and {}", q.to_string(),
         v.to_string());
  const Shape heads{q.shape[0], q.shape[1], q.shape[2]};
  check_shape("k", in[1], q, q.shape);
  check_shape("v", v, q, {heads[0], heads[1], heads[2], v.shape[3]});
  check_shape("decay", in[3], q, heads);
  check_shape("beta", in[4], q, heads);
  if (in.size() > 5) check_shape("the state", in[5], q, state_shape(in));
}

// Each token takes `products` products of a vector and the state.
double flops(Types in, double products) {
  return 2 * products * row_count(in[0]) * row_length(in[0]) * row_length(in[2]);
}

}  // namespace

std::vector<TensorType> GatedDelta::infer(Types in) const {
  check_inputs(in);
  const TensorType state{in[0].dtype, state_shape(in)};
  return {in[2], state, state};
}

Cost GatedDelta::cost(Types in, Types out) const {
  return {.bytes = bytes_moved(in, out), .flops = flops(in, 3)};
}

double GatedDelta::sum_length(Types in, Types) const { return row_length(in[0]); }

void GatedDelta::grad(GradientContext& g) const {
  if (g.dy(1) || g.dy(2)) fail("gated_delta: its states have no gradients, only y has one");
  std::vector<Value> inputs;
  for (int i = 0; i < g.num_inputs(); ++i) inputs.push_back(g.input(i));
  if (inputs.size() == 5) inputs.push_back(zeros_like(g.output(1)));
  inputs.push_back(g.dy());
  const std::vector<Value> gradients = emit_node(GatedDeltaGrad{}, inputs);
  for (int i = 0; i < g.num_inputs(); ++i) g.set(i, gradients[static_cast<size_t>(i)]);
}

std::vector<TensorType> GatedDeltaGrad::infer(Types in) const {
  check_inputs(in.first(6));
  check_shape("dy", in[6], in[0], in[2].shape);
  return {in[0], in[1], in[2], in[3], in[4], in[5]};
}

Cost GatedDeltaGrad::cost(Types in, Types out) const {
  return {.bytes = bytes_moved(in, out), .flops = flops(in, 9)};
}

double GatedDeltaGrad::sum_length(Types in, Types) const { return row_length(in[0]) + row_length(in[2]); }

}  // namespace ops

std::span<const OpDef* const> gated_delta_ops() { return kOpDefs<ops::GatedDelta, ops::GatedDeltaGrad>; }

GatedDeltaResult gated_delta(Value q, Value k, Value v, Value decay, Value beta, Value state) {
  const DType dtype = promote(v.dtype(), DType::f32);
  std::vector<Value> inputs = {q, k, v, decay, beta};
  if (state) inputs.push_back(state);
  for (Value& input : inputs) input = cast(input, dtype);
  const std::vector<Value> results = emit_node(ops::GatedDelta{}, inputs);
  return {cast(results[0], v.dtype()), results[1], results[2]};
}

}  // namespace genesis
