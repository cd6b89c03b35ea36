#include "schema/ops/nn/mamba2.h"

#include "schema/ops/create.h"
#include "schema/ops/elementwise/cast.h"
#include "schema/ops/gradient.h"

namespace genesis {
namespace ops {
namespace {

void check_type(std::string_view name, const TensorType& type, DType dtype, const Shape& expected) {
  if (type.dtype != dtype || !(type.shape == expected))
    fail("mamba2: {} is {}, expected {}", name, type.to_string(), TensorType{dtype, expected}.to_string());
}

Shape state_shape(Types in) { return {in[2].shape[0], in[2].shape[2], in[0].shape[3], in[2].shape[3]}; }

void check_inputs(Types in) {
  const TensorType &c = in[0], &x = in[2];
  if ((c.dtype != DType::f32 && c.dtype != DType::f64) || c.shape.rank() != 4 || x.shape.rank() != 4)
    fail("mamba2: c and x must be f32 or f64 [batch, time, groups or heads, size], got {} and {}",
         c.to_string(), x.to_string());
  const Shape heads{c.shape[0], c.shape[1], x.shape[2]};
  check_type("b", in[1], c.dtype, c.shape);
  check_type("x", x, c.dtype, {heads[0], heads[1], heads[2], x.shape[3]});
  check_type("decay", in[3], c.dtype, heads);
  check_type("step", in[4], c.dtype, heads);
  if (in.size() > 5) check_type("the state", in[5], c.dtype, state_shape(in));
  const int64_t groups = c.shape[2].value(), all = x.shape[2].value();
  if (groups == 0 ? all != 0 : all % groups != 0)
    fail("mamba2: x has {} heads, expected a multiple of the {} groups of c and b", all, groups);
}

// Each token takes `products` products of a vector and the state of each head.
double flops(Types in, double products) {
  return 2 * products * row_count(in[2]) * row_length(in[0]) * row_length(in[2]);
}

}  // namespace

std::vector<TensorType> Mamba2::infer(Types in) const {
  check_inputs(in);
  const TensorType state{in[0].dtype, state_shape(in)};
  return {in[2], state, state};
}

Cost Mamba2::cost(Types in, Types out) const {
  return {.bytes = bytes_moved(in, out), .flops = flops(in, 2)};
}

double Mamba2::sum_length(Types in, Types) const { return row_length(in[0]); }

void Mamba2::grad(GradientContext& g) const {
  if (g.dy(1) || g.dy(2)) fail("mamba2: its states have no gradients, only y has one");
  std::vector<Value> inputs;
  for (int i = 0; i < g.num_inputs(); ++i) inputs.push_back(g.input(i));
  if (inputs.size() == 5) inputs.push_back(zeros_like(g.output(1)));
  inputs.push_back(g.dy());
  const std::vector<Value> gradients = emit_node(Mamba2Grad{}, inputs);
  for (int i = 0; i < g.num_inputs(); ++i) g.set(i, gradients[static_cast<size_t>(i)]);
}

std::vector<TensorType> Mamba2Grad::infer(Types in) const {
  check_inputs(in.first(6));
  check_type("dy", in[6], in[0].dtype, in[2].shape);
  return {in[0], in[1], in[2], in[3], in[4], in[5]};
}

Cost Mamba2Grad::cost(Types in, Types out) const {
  return {.bytes = bytes_moved(in, out), .flops = flops(in, 6)};
}

// The gradients of c and b are sums over the heads of a group, too.
double Mamba2Grad::sum_length(Types in, Types) const { return row_length(in[0]) + row_length(in[2]); }

}  // namespace ops

std::span<const OpDef* const> mamba2_ops() { return kOpDefs<ops::Mamba2, ops::Mamba2Grad>; }

Mamba2Result mamba2(Value c, Value b, Value x, Value decay, Value step, Value state) {
  const DType dtype = promote(x.dtype(), DType::f32);
  std::vector<Value> inputs = {c, b, x, decay, step};
  if (state) inputs.push_back(state);
  for (Value& input : inputs) input = cast(input, dtype);
  const std::vector<Value> results = emit_node(ops::Mamba2{}, inputs);
  return {cast(results[0], x.dtype()), results[1], results[2]};
}

}  // namespace genesis
