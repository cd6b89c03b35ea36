#include "schema/ops/nn/rope.h"

#include "schema/ops/gradient.h"

namespace genesis {
namespace {

void check_frequencies(const TensorType& frequencies, const TensorType& x, int64_t pairs) {
  const Shape shared{pairs}, per_row{x.shape[0], pairs};
  if (frequencies.dtype != DType::f64 || !(frequencies.shape == shared || frequencies.shape == per_row))
    fail("rope: frequencies must be f64{} or f64{} for x {}, got {}", shared.to_string(), per_row.to_string(),
         x.to_string(), frequencies.to_string());
}

Value rotated(Value x, Value positions, Value frequencies, const ops::Rope& op) {
  std::vector<Value> inputs = {x, positions};
  if (frequencies) inputs.push_back(frequencies);
  return emit(op, inputs);
}

}  // namespace

namespace ops {

std::vector<TensorType> Rope::infer(Types in) const {
  const TensorType &x = in[0], &positions = in[1];
  if (!is_float(x.dtype) || x.shape.rank() != 4)
    fail("rope: x must be floating-point [batch, time, heads, head_size], got {}", x.to_string());
  const Shape per_time{x.shape[1]}, per_row{x.shape[0], x.shape[1]};
  if (positions.dtype != DType::i64 || !(positions.shape == per_time || positions.shape == per_row))
    fail("rope: positions must be i64{} or i64{} for x {}, got {}", per_time.to_string(), per_row.to_string(),
         x.to_string(), positions.to_string());
  if (!x.shape[3].is_constant()) fail("rope: the head size must be known, got {}", x.to_string());
  const int64_t head_size = x.shape[3].value(), rotated = rotary_size == 0 ? head_size : rotary_size;
  if (rotated % 2 != 0 || rotated < 0 || rotated > head_size)
    fail("rope: rotary_size must be even and at most the head size {}, got {}", head_size, rotated);
  if (heads < 0 || (x.shape[2].is_constant() && heads > x.shape[2].value()))
    fail("rope: heads must be at most the {} of x {}, got {}", x.shape[2].to_string(), x.to_string(), heads);
  if (!(theta > 0)) fail("rope: theta must be positive, got {}", theta);
  if (in.size() > 2) check_frequencies(in[2], x, rotated / 2);
  return {x};
}

// The transpose of a rotation is the rotation by the negative angle.
void Rope::grad(GradientContext& g) const {
  Rope back = *this;
  back.inverse = !inverse;
  g.set(0, rotated(g.dy(), g.input(1), g.num_inputs() > 2 ? g.input(2) : Value{}, back));
}

}  // namespace ops

std::span<const OpDef* const> rope_ops() { return kOpDefs<ops::Rope>; }

Value rope(Value x, Value positions, double theta, RopeKind kind, int64_t rotary_size, int64_t heads,
           Value frequencies) {
  return rotated(x, positions, frequencies,
                 {.theta = theta, .kind = kind, .rotary_size = rotary_size, .heads = heads});
}

}  // namespace genesis
