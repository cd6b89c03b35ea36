#include "schema/ops/elementwise/cast.h"

#include "schema/ops/gradient.h"

namespace genesis {
namespace ops {

std::vector<TensorType> Cast::infer(Types in) const { return {{dtype, in[0].shape}}; }

void Cast::grad(GradientContext& g) const {
  if (is_float(dtype)) g.set(0, g.dy());  // autodiff casts back
}

std::vector<TensorType> JoinHalves::infer(Types in) const {
  if (in[0].dtype != DType::bf16 || in[1].dtype != DType::i16 || !(in[0].shape == in[1].shape))
    fail("join_halves takes bf16 and i16 of one shape, got {} and {}", in[0].to_string(), in[1].to_string());
  return {{DType::f32, in[0].shape}};
}

}  // namespace ops

std::span<const OpDef* const> cast_ops() { return kOpDefs<ops::Cast, ops::JoinHalves>; }

Value cast(Value x, DType dtype) {
  if (x.dtype() == dtype) return x;
  return emit(ops::Cast{dtype}, {x});
}

Value join_halves(Value upper, Value lower) { return emit(ops::JoinHalves{}, {upper, lower}); }

}  // namespace genesis
