// Tensors made from nothing, or from indices. They take the graph they belong to.
#pragma once

#include "schema/graph.h"

namespace genesis {

Value full(Graph& graph, Shape shape, Scalar value, DType dtype = DType::f32);
Value zeros(Graph& graph, Shape shape, DType dtype = DType::f32);
Value ones(Graph& graph, Shape shape, DType dtype = DType::f32);
Value full_like(Value x, Scalar value);
Value zeros_like(Value x);
Value ones_like(Value x);
// start, start + step, ... `length` of them.
Value arange(Graph& graph, Dim length, Scalar start = 0, Scalar step = 1, DType dtype = DType::i64);
Value one_hot(Value indices, int64_t num_classes, DType dtype = DType::f32);
// The size of `dim` at run time, as a scalar (sizes are known when a plan is made).
Value dim_value(Graph& graph, Dim dim, DType dtype = DType::i64);

}  // namespace genesis
