// Rules of the softmax family: a result has the type of its input, and a gradient needs only y and dy.
#include "schema/ops/nn/softmax.h"

#include "schema/ops/gradient.h"

namespace genesis {
namespace {

void check_float(const TensorType& x) {
  if (!is_float(x.dtype)) fail("softmax needs a floating-point tensor, got {}; cast it first", x.to_string());
}

// Treats a scalar as one row of one element.
int64_t checked_axis(int64_t axis, int rank) { return normalize_axis(axis, rank == 0 ? 1 : rank); }

std::vector<TensorType> infer_softmax(Types in, int64_t axis) {
  check_float(in[0]);
  checked_axis(axis, in[0].shape.rank());
  return {in[0]};
}

std::vector<TensorType> infer_softmax_grad(Types in, int64_t axis) {
  if (!(in[0] == in[1]))
    fail("y and dy must have one type, got {} and {}", in[0].to_string(), in[1].to_string());
  return infer_softmax(in, axis);
}

}  // namespace

namespace ops {

std::vector<TensorType> Softmax::infer(Types in) const { return infer_softmax(in, axis); }
std::vector<TensorType> LogSoftmax::infer(Types in) const { return infer_softmax(in, axis); }
std::vector<TensorType> LogSoftmaxGrad::infer(Types in) const { return infer_softmax_grad(in, axis); }

std::vector<TensorType> CausalSoftmax::infer(Types in) const {
  if (in[0].shape.rank() < 2)
    fail("causal_softmax needs [..., queries, keys], got {}", in[0].shape.to_string());
  if (!(scale > 0)) fail("causal_softmax: scale is {}, expected more than 0", scale);
  return infer_softmax(in, -1);
}

std::vector<TensorType> SoftmaxGrad::infer(Types in) const {
  if (causal && (in[0].shape.rank() < 2 || checked_axis(axis, in[0].shape.rank()) != in[0].shape.rank() - 1))
    fail("a causal softmax_grad needs [..., queries, keys] and works along the last axis");
  return infer_softmax_grad(in, axis);
}

void Softmax::grad(GradientContext& g) const {
  g.set(0, emit(SoftmaxGrad{.axis = axis}, {g.output(), g.dy()}));
}

void LogSoftmax::grad(GradientContext& g) const {
  g.set(0, emit(LogSoftmaxGrad{axis}, {g.output(), g.dy()}));
}

void CausalSoftmax::grad(GradientContext& g) const {
  const SoftmaxGrad op{.axis = -1, .scale = scale, .causal = true};
  g.set(0, emit(op, {g.output(), g.dy()}));
}

}  // namespace ops

std::span<const OpDef* const> softmax_ops() {
  return kOpDefs<ops::Softmax, ops::LogSoftmax, ops::CausalSoftmax, ops::SoftmaxGrad, ops::LogSoftmaxGrad>;
}

// Axes are stored counted from the front, so that equal nodes have equal attributes.
Value softmax(Value x, int64_t axis) { return emit(ops::Softmax{checked_axis(axis, x.rank())}, {x}); }

Value log_softmax(Value x, int64_t axis) { return emit(ops::LogSoftmax{checked_axis(axis, x.rank())}, {x}); }

Value causal_softmax(Value x, double scale) { return emit(ops::CausalSoftmax{scale}, {x}); }

}  // namespace genesis
