#include "schema/ops/tensor/cast_group.h"

#include "schema/ops/gradient.h"
#include "schema/ops/tensor/slice.h"

namespace genesis {
namespace {

TensorType joined(Types parts) {
  TensorType type = parts[0];
  for (const TensorType& part : parts.subspan(1)) {
    Shape expected = part.shape;
    if (expected.rank() > 0 && expected.rank() == type.shape.rank()) expected[0] = type.shape[0];
    if (type.shape.rank() == 0 || !(expected == type.shape))
      fail("tensors joined along axis 0 differ there only, got {} and {}", parts[0].shape.to_string(),
           part.shape.to_string());
    type.shape[0] = type.shape[0] + part.shape[0];
  }
  return type;
}

}  // namespace

namespace ops {

std::vector<TensorType> CastGroup::infer(Types in) const {
  if (!is_float(dtype)) fail("cast_group makes reals, not {}", name_of(dtype));
  for (const TensorType& type : in)
    if (!is_float(type.dtype)) fail("cast_group takes reals, got {}", type.to_string());
  std::vector<TensorType> out;
  size_t first = 0;
  for (const int64_t count : parts) {
    if (count < 1 || static_cast<size_t>(count) > in.size() - first)
      fail("cast_group's parts ask for other than the {} inputs given", in.size());
    out.push_back({dtype, joined(in.subspan(first, static_cast<size_t>(count))).shape});
    first += static_cast<size_t>(count);
  }
  if (first != in.size()) fail("cast_group's parts ask for {} inputs, {} were given", first, in.size());
  return out;
}

void CastGroup::grad(GradientContext& g) const {
  int input = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    const Value dy = g.dy(static_cast<int>(i));
    Dim start(0);
    for (int64_t part = 0; part < parts[i]; ++part, ++input) {
      if (dy && parts[i] == 1) g.set(input, dy);
      if (!dy || parts[i] == 1) continue;
      const Dim length = g.input(input).dim(0);
      if (g.wants(input)) g.set(input, narrow(dy, 0, start, length));
      start = start + length;
    }
  }
}

}  // namespace ops

std::span<const OpDef* const> cast_group_ops() { return kOpDefs<ops::CastGroup>; }

std::vector<Value> cast_group(const std::vector<std::vector<Value>>& results, DType dtype) {
  if (results.empty() || results[0].empty()) fail("cast_group was given no tensors");
  ops::CastGroup op{dtype, {}};
  std::vector<Value> inputs;
  for (const std::vector<Value>& parts : results) {
    op.parts.push_back(static_cast<int64_t>(parts.size()));
    inputs.insert(inputs.end(), parts.begin(), parts.end());
  }
  return emit_node(op, inputs);
}

}  // namespace genesis
