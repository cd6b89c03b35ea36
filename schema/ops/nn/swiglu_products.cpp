#include "schema/ops/nn/swiglu_products.h"

#include "schema/ops/nn/swiglu.h"

namespace genesis {
namespace ops {

std::vector<TensorType> LinearWithSwiglu::infer(Types in) const {
  const TensorType gate_and_up = Linear{}.infer(in)[0];
  const std::vector<TensorType> packed = {gate_and_up};
  return {gate_and_up, Swiglu{}.infer(packed)[0]};
}

Cost LinearWithSwiglu::cost(Types in, Types out) const {
  return {bytes_moved(in, out), product_flops(out[0], axis_size(in[0], -1))};
}

std::vector<TensorType> MatmulSwigluGrad::infer(Types in) const {
  if (in[1].shape.rank() != 2)
    fail("matmul_swiglu_grad: the second operand must be [k, n], got {}", in[1].to_string());
  const std::vector<TensorType> operands = {in[2], Matmul{}.infer(in.first(2))[0]};
  return SwigluGrad{with_output}.infer(operands);
}

Cost MatmulSwigluGrad::cost(Types in, Types out) const {
  return {bytes_moved(in, out), product_flops(out[0], axis_size(in[0], -1)) / 2};  // out is gate and up of one dy
}

}  // namespace ops

namespace {

constexpr OpDef kLinearWithSwiglu = make_op<ops::LinearWithSwiglu>();
constexpr OpDef kMatmulSwigluGrad = make_op<ops::MatmulSwigluGrad>();
constexpr const OpDef* kOps[] = {&kLinearWithSwiglu, &kMatmulSwigluGrad};

}  // namespace

std::span<const OpDef* const> swiglu_products_ops() { return kOps; }

std::vector<Value> linear_with_swiglu(Value x, Value weight) {
  return emit_node(kLinearWithSwiglu, {}, {x, weight});
}

std::vector<Value> matmul_swiglu_grad(Value a, Value b, Value gate_and_up, bool with_output) {
  return emit_node(kMatmulSwigluGrad, to_attributes(ops::MatmulSwigluGrad{with_output}), {a, b, gate_and_up});
}

}  // namespace genesis
