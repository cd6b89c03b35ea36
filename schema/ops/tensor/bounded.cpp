#include "schema/ops/tensor/bounded.h"

#include "schema/ops/elementwise/cast.h"

namespace genesis {
namespace ops {

std::vector<TensorType> Nonzero::infer(Types in) const {
  const Shape& shape = in[0].shape;
  return {{DType::i64, {shape.numel(), Dim(shape.rank())}}, {DType::i64, {}}};
}

std::vector<TensorType> Nms::infer(Types in) const {
  const TensorType &boxes = in[0], &scores = in[1];
  const bool is_real = boxes.dtype == DType::f32 || boxes.dtype == DType::f64;
  if (!is_real || boxes.dtype != scores.dtype || boxes.shape.rank() != 3 || scores.shape.rank() != 3)
    fail("nms takes boxes [batch, boxes, 4] and scores [batch, classes, boxes] of f32 or f64, got {} and {}",
         boxes.to_string(), scores.to_string());
  if (!(boxes.shape[2] == Dim(4)) || !(boxes.shape[0] == scores.shape[0]) ||
      !(boxes.shape[1] == scores.shape[2]))
    fail("nms: boxes {} and scores {} do not fit: expected [batch, boxes, 4] and [batch, classes, boxes]",
         boxes.to_string(), scores.to_string());
  if (max_boxes < 0) fail("nms: max_boxes is {}: expected 0 or more", max_boxes);
  return {{DType::i64, {scores.shape[0] * scores.shape[1] * Dim(max_boxes), Dim(3)}}, {DType::i64, {}}};
}

}  // namespace ops

std::span<const OpDef* const> bounded_ops() { return kOpDefs<ops::Nms, ops::Nonzero>; }

BoundedRows nonzero(Value x) {
  const std::vector<Value> results = emit_node(ops::Nonzero{}, {x});
  return {results[0], results[1]};
}

BoundedRows non_max_suppression(Value boxes, Value scores, const ops::Nms& options) {
  const DType dtype = promote(promote(boxes.dtype(), scores.dtype()), DType::f32);
  const std::vector<Value> results = emit_node(options, {cast(boxes, dtype), cast(scores, dtype)});
  return {results[0], results[1]};
}

}  // namespace genesis
