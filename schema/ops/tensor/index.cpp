#include "schema/ops/tensor/index.h"

#include "schema/ops/create.h"
#include "schema/ops/elementwise/elementwise.h"
#include "schema/ops/gradient.h"
#include "schema/ops/tensor/reshape.h"
#include "schema/ops/tensor/slice.h"

namespace genesis {
namespace {

void check_index(const TensorType& index, std::string_view op) {
  if (index.dtype != DType::i32 && index.dtype != DType::i64)
    fail("{} takes i32 or i64 indices, got {}", op, index.to_string());
}

// Follows torch's rule: index must not be larger than x along any axis other than `axis`.
void check_gather(const TensorType& x, const TensorType& index, int64_t axis, std::string_view op) {
  check_index(index, op);
  if (x.shape.rank() != index.shape.rank())
    fail("{} takes an index of the rank of x, got {} for {}", op, index.to_string(), x.to_string());
  if (x.shape.rank() == 0) fail("{} takes tensors of rank 1 at least, got {}", op, x.to_string());
  const int at = normalize_axis(axis, x.shape.rank());
  for (int i = 0; i < x.shape.rank(); ++i) {
    const Dim excess = index.shape[i] - x.shape[i];
    if (i != at && excess.is_constant() && excess.value() > 0)
      fail("{} along axis {}: the index {} is larger than {} along axis {}", op, at, index.to_string(),
           x.to_string(), i);
  }
}

void check_scatter(Types in, int64_t axis, std::string_view op) {
  check_gather(in[0], in[1], axis, op);
  if (in[2].dtype != in[0].dtype)
    fail("{} writes {} into {}: cast the source first", op, in[2].to_string(), in[0].to_string());
  if (!(in[2].shape == in[1].shape))
    fail("{} takes a source of the shape of the index, got {} for {}", op, in[2].to_string(),
         in[1].to_string());
}

void check_vector_index(const TensorType& index, std::string_view op) {
  check_index(index, op);
  if (index.shape.rank() != 1) fail("{} takes a 1-d index, got {}", op, index.to_string());
}

Shape with_dim(Shape shape, int64_t axis, const Dim& dim) {
  shape[normalize_axis(axis, shape.rank())] = dim;
  return shape;
}

// Returns the slice of `source` that `index` covers.
Value covered(Value source, Value index) {
  if (source.rank() != index.rank()) return source;  // the op's rule reports the error
  for (int i = 0; i < source.rank(); ++i) source = narrow(source, i, 0, index.shape()[i]);
  return source;
}

int axis_of(Value x, int64_t axis) { return normalize_axis(axis, std::max(x.rank(), 1)); }

}  // namespace

namespace ops {

std::vector<TensorType> Gather::infer(Types in) const {
  check_gather(in[0], in[1], axis, "gather");
  return {{in[0].dtype, in[1].shape}};
}

void Gather::grad(GradientContext& g) const {
  g.set(0, scatter_add(zeros_like(g.input(0)), axis, g.input(1), g.dy()));
}

std::vector<TensorType> Scatter::infer(Types in) const {
  check_scatter(in, axis, "scatter");
  return {in[0]};
}

// If several sources are written to one place, only the last one appears in the result and gets a gradient.
void Scatter::grad(GradientContext& g) const {
  const Value index = g.input(1), dy = g.dy();
  if (g.wants(0)) g.set(0, scatter(dy, axis, index, full(g.graph(), index.shape(), 0, dy.dtype())));
  if (!g.wants(2)) return;
  const Value number = reshape(arange(g.graph(), index.shape().numel()), index.shape());
  const Value nobody = full(g.graph(), dy.shape(), 0, DType::i64);
  const Value won = eq(gather(scatter(nobody, axis, index, number), axis, index), number);
  g.set(2, where(won, gather(dy, axis, index), scalar_like(dy, 0.0)));
}

std::vector<TensorType> ScatterAdd::infer(Types in) const {
  check_scatter(in, axis, "scatter_add");
  return {in[0]};
}

void ScatterAdd::grad(GradientContext& g) const {
  g.set(0, g.dy());
  if (g.wants(2)) g.set(2, gather(g.dy(), axis, g.input(1)));
}

std::vector<TensorType> IndexSelect::infer(Types in) const {
  check_vector_index(in[1], "index_select");
  return {{in[0].dtype, with_dim(in[0].shape, axis, in[1].shape[0])}};
}

void IndexSelect::grad(GradientContext& g) const {
  g.set(0, index_add(zeros_like(g.input(0)), axis, g.input(1), g.dy()));
}

std::vector<TensorType> IndexAdd::infer(Types in) const {
  check_vector_index(in[1], "index_add");
  if (in[2].dtype != in[0].dtype)
    fail("index_add adds {} to {}: cast the source first", in[2].to_string(), in[0].to_string());
  const Shape expected = with_dim(in[0].shape, axis, in[1].shape[0]);
  if (!(in[2].shape == expected))
    fail("index_add expects a source of shape {}, got {}", expected.to_string(), in[2].shape.to_string());
  part.check(in[0].shape[normalize_axis(axis, in[0].shape.rank())]);
  return {in[0]};
}

void IndexAdd::grad(GradientContext& g) const {
  if (part.is_part()) fail("index_add into a part of the indices has no gradient");
  g.set(0, g.dy());
  if (g.wants(2)) g.set(2, index_select(g.dy(), axis, g.input(1)));
}

std::vector<TensorType> Embedding::infer(Types in) const {
  check_index(in[0], "embedding");
  const Shape& weight = in[1].shape;
  if (weight.rank() != 2) fail("embedding takes a weight [num_embeddings, dim], got {}", in[1].to_string());
  part.check(weight[0]);
  if (weight[0].is_constant() && padding_idx >= part.of(weight[0].value()).all)
    fail("padding_idx {} is not a row of {}", padding_idx, in[1].to_string());
  Shape shape = in[0].shape;
  shape.push_back(weight[1]);
  return {{in[1].dtype, shape}};
}

std::vector<TensorType> EmbeddingGrad::infer(Types in) const {
  check_index(in[0], "embedding_grad");
  if (rows.rank() != 1) fail("attribute 'rows' must hold one size, got {}", rows.to_string());
  part.check(rows[0]);
  Shape expected = in[0].shape;
  const Shape& dy = in[1].shape;
  if (dy.rank() > 0) expected.push_back(dy[dy.rank() - 1]);
  if (dy.rank() == 0 || !(dy == expected))
    fail("embedding_grad expects dy of the shape of the indices {} and one more axis, got {}",
         in[0].shape.to_string(), dy.to_string());
  return {{in[1].dtype, {rows[0], dy[dy.rank() - 1]}}};
}

void Embedding::grad(GradientContext& g) const {
  if (!g.wants(1)) return;
  const EmbeddingGrad back{{g.input(1).shape()[0]}, padding_idx, part};
  g.set(1, emit(back, {g.input(0), g.dy()}));
}

// The op is linear in dy: row i of the gradient goes back to the row of dy that it came from.
void EmbeddingGrad::grad(GradientContext& g) const {
  if (!g.wants(1)) return;
  const Value rows_of_dy = emit(Embedding{-1, part}, {g.input(0), g.dy()});
  if (padding_idx < 0) return g.set(1, rows_of_dy);
  const Value padding = eq(g.input(0), scalar_like(g.input(0), padding_idx));
  g.set(1, where(unsqueeze(padding, -1), scalar_like(rows_of_dy, 0.0), rows_of_dy));
}

}  // namespace ops

std::span<const OpDef* const> index_ops() {
  return kOpDefs<ops::Gather, ops::Scatter, ops::ScatterAdd, ops::IndexSelect, ops::IndexAdd, ops::Embedding,
                 ops::EmbeddingGrad>;
}

Value gather(Value x, int64_t axis, Value index) { return emit(ops::Gather{{axis_of(x, axis)}}, {x, index}); }

Value scatter(Value x, int64_t axis, Value index, Value source) {
  const ops::Scatter op{{axis_of(x, axis)}};
  return emit(op, {x, index, covered(source, index)});
}

Value scatter_add(Value x, int64_t axis, Value index, Value source) {
  const ops::ScatterAdd op{{axis_of(x, axis)}};
  return emit(op, {x, index, covered(source, index)});
}

Value index_select(Value x, int64_t axis, Value index) {
  return emit(ops::IndexSelect{{axis_of(x, axis)}}, {x, index});
}

Value index_add(Value x, int64_t axis, Value index, Value source) {
  return emit(ops::IndexAdd{{axis_of(x, axis)}}, {x, index, source});
}

Value embedding(Value indices, Value weight, int64_t padding_idx) {
  return emit(ops::Embedding{padding_idx}, {indices, weight});
}

}  // namespace genesis
