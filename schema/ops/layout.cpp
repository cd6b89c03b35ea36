#include "schema/ops/layout.h"

#include "schema/gradient.h"

namespace genesis {
namespace ops {

std::vector<TensorType> Expand::infer(Types in) const {
  if (!(broadcast(in[0].shape, shape) == shape))
    fail("{} does not expand to {}", in[0].shape.to_string(), shape.to_string());
  return {{in[0].dtype, shape}};
}

void Expand::grad(GradientContext& g) const { g.set(0, g.dy()); }

}  // namespace ops

namespace {

constexpr OpDef kExpand = make_op<ops::Expand>();
constexpr const OpDef* kOps[] = {&kExpand};

}  // namespace

std::span<const OpDef* const> layout_ops() { return kOps; }

Value expand(Value x, Shape shape) {
  if (shape == x.shape()) return x;
  return emit_node(kExpand, to_attributes(ops::Expand{shape}), {x})[0];
}

}  // namespace genesis
