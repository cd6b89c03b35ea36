#include "schema/ops/cast.h"

#include "schema/gradient.h"

namespace genesis {
namespace ops {

std::vector<TensorType> Cast::infer(Types in) const { return {{dtype, in[0].shape}}; }

void Cast::grad(GradientContext& g) const {
  if (is_float(dtype)) g.set(0, g.dy());  // set() casts back
}

}  // namespace ops

namespace {

constexpr OpDef kCast = make_op<ops::Cast>();
constexpr const OpDef* kOps[] = {&kCast};

}  // namespace

std::span<const OpDef* const> cast_ops() { return kOps; }

Value cast(Value x, DType dtype) {
  if (x.dtype() == dtype) return x;
  return emit_node(kCast, to_attributes(ops::Cast{dtype}), {x})[0];
}

}  // namespace genesis
