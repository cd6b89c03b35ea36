#include "schema/ops/swiglu.h"

#include "schema/gradient.h"
#include "schema/ops/cast.h"

namespace genesis {
namespace {

void check_alike(std::string_view op, Types in) {
  for (const TensorType& type : in)
    if (!is_float(type.dtype) || !(type == in[0]))
      fail("{}: operands must be floating-point and of one type, got {} beside {}", op, type.to_string(),
           in[0].to_string());
}

constexpr OpDef kSwigluGrad = make_op<ops::SwigluGrad>();

}  // namespace

namespace ops {

std::vector<TensorType> Swiglu::infer(Types in) const {
  check_alike("swiglu", in);
  return {in[0]};
}

void Swiglu::grad(GradientContext& g) const {
  const auto dx = emit_node(kSwigluGrad, {}, {g.input(0), g.input(1), g.dy()});
  g.set(0, dx[0]);
  g.set(1, dx[1]);
}

std::vector<TensorType> SwigluGrad::infer(Types in) const {
  check_alike("swiglu_grad", in);
  return {in[0], in[0]};
}

}  // namespace ops

namespace {

constexpr OpDef kSwiglu = make_op<ops::Swiglu>();
constexpr const OpDef* kOps[] = {&kSwiglu, &kSwigluGrad};

}  // namespace

std::span<const OpDef* const> swiglu_ops() { return kOps; }

Value swiglu(Value gate, Value up) {
  const DType dtype = promote(gate.dtype(), up.dtype());
  return emit_node(kSwiglu, {}, {cast(gate, dtype), cast(up, dtype)})[0];
}

}  // namespace genesis
