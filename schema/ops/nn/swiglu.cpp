#include "schema/ops/nn/swiglu.h"

#include "schema/ops/elementwise/cast.h"
#include "schema/ops/gradient.h"

namespace genesis {
namespace {

void check_alike(std::string_view op, Types in) {
  for (const TensorType& type : in)
    if (!is_float(type.dtype) || !(type == in[0]))
      fail("{}: operands must be floating-point and of one type, got {} beside {}", op, type.to_string(),
           in[0].to_string());
}

// Returns the type of one half of gate and up side by side.
TensorType half_of(std::string_view op, const TensorType& packed) {
  const Shape& shape = packed.shape;
  const auto half = shape.rank() > 0 ? shape[shape.rank() - 1].divide_exact(Dim(2)) : std::nullopt;
  if (!is_float(packed.dtype) || !half)
    fail("{}: gate and up as one operand must be floating-point [..., 2 n], got {}", op, packed.to_string());
  TensorType type = packed;
  type.shape[shape.rank() - 1] = *half;
  return type;
}

}  // namespace

namespace ops {

std::vector<TensorType> Swiglu::infer(Types in) const {
  if (in.size() == 1) return {half_of("swiglu", in[0])};
  check_alike("swiglu", in);
  return {in[0]};
}

void Swiglu::grad(GradientContext& g) const {
  std::vector<Value> inputs;
  for (int i = 0; i < g.num_inputs(); ++i) inputs.push_back(g.input(i));
  inputs.push_back(g.dy());
  const auto dx = emit_node(ops::SwigluGrad{}, inputs);
  for (int i = 0; i < g.num_inputs(); ++i) g.set(i, dx[static_cast<size_t>(i)]);
}

std::vector<TensorType> SwigluGrad::infer(Types in) const {
  const TensorType& dy = in.back();
  std::vector<TensorType> types(in.begin(), in.end() - 1);
  if (types.size() == 2) {
    check_alike("swiglu_grad", in);
  } else if (const TensorType half = half_of("swiglu_grad", in[0]); !(dy == half)) {
    fail("swiglu_grad: dy must be {}, got {}", half.to_string(), dy.to_string());
  }
  if (with_output) types.push_back(dy);
  return types;
}

}  // namespace ops

std::span<const OpDef* const> swiglu_ops() { return kOpDefs<ops::Swiglu, ops::SwigluGrad>; }

Value swiglu(Value gate, Value up) {
  const DType dtype = promote(gate.dtype(), up.dtype());
  return emit(ops::Swiglu{}, {cast(gate, dtype), cast(up, dtype)});
}

Value packed_swiglu(Value gate_and_up) { return emit(ops::Swiglu{}, {gate_and_up}); }

}  // namespace genesis
