#include "schema/ops/create.h"

namespace genesis {
namespace ops {

std::vector<TensorType> Full::infer(Types) const {
  check_fill(value, dtype, "full");
  return {{dtype, shape}};
}

std::vector<TensorType> Arange::infer(Types) const {
  if (length.rank() != 1) fail("arange takes one length, got {}", length.to_string());
  return {{dtype, length}};
}

std::vector<TensorType> OneHot::infer(Types in) const {
  if (!is_integer(in[0].dtype)) fail("one_hot takes integer indices, got {}", in[0].to_string());
  if (num_classes < 0) fail("one_hot was given {} classes", num_classes);
  Shape shape = in[0].shape;
  shape.push_back(num_classes);
  return {{dtype, shape}};
}

std::vector<TensorType> DimValue::infer(Types) const {
  if (dim.rank() != 1) fail("dim_value takes one size, got {}", dim.to_string());
  return {{dtype, {}}};
}

}  // namespace ops

std::span<const OpDef* const> create_ops() {
  return kOpDefs<ops::Full, ops::Arange, ops::OneHot, ops::DimValue>;
}

void check_fill(const Scalar& value, DType dtype, std::string_view op) {
  const double number = value.as_double();
  if (!is_integer(dtype) || value.is_integer() || (number >= -0x1p63 && number < 0x1p63)) return;
  fail("{}: {} is no value of {}: give a whole number, or make the tensor f32", op, number, name_of(dtype));
}

Value full(Graph& graph, Shape shape, Scalar value, DType dtype) {
  return graph.add_node(kOpDef<ops::Full>, to_attributes(ops::Full{std::move(shape), value, dtype}), {})[0];
}

Value zeros(Graph& graph, Shape shape, DType dtype) { return full(graph, std::move(shape), 0, dtype); }

Value ones(Graph& graph, Shape shape, DType dtype) { return full(graph, std::move(shape), 1, dtype); }

Value full_like(Value x, Scalar value) {
  const TensorType& type = x.type();  // throws Error if x is empty
  return full(*x.graph, type.shape, value, type.dtype);
}

Value zeros_like(Value x) { return full_like(x, 0); }

Value ones_like(Value x) { return full_like(x, 1); }

Value arange(Graph& graph, Dim length, Scalar start, Scalar step, DType dtype) {
  return graph.add_node(kOpDef<ops::Arange>,
                        to_attributes(ops::Arange{{std::move(length)}, start, step, dtype}), {})[0];
}

Value one_hot(Value indices, int64_t num_classes, DType dtype) {
  return emit(ops::OneHot{num_classes, dtype}, {indices});
}

Value dim_value(Graph& graph, Dim dim, DType dtype) {
  if (dim.is_constant()) return full(graph, {}, dim.value(), dtype);
  return graph.add_node(kOpDef<ops::DimValue>, to_attributes(ops::DimValue{{std::move(dim)}, dtype}), {})[0];
}

}  // namespace genesis
