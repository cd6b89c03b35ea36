// Functions with the names and arguments of torch and torch.nn.functional for ops that have another name here, or that are a few
// ops together. All other functions of torch stand with their ops (schema/ops) under torch's name. `axis` is torch's dim.
//
//     const Value joined = cat({x, 2 * x}, 1);
//     const Value clean = masked_fill(joined, isnan(joined), 0);
//     const Value y = normalize(clean, -1);
#pragma once

#include <concepts>

#include "schema/ops/elementwise/elementwise.h"
#include "schema/ops/nn/loss.h"
#include "schema/ops/tensor/layout.h"
#include "schema/ops/tensor/reduce.h"
#include "schema/ops/tensor/reshape.h"
#include "schema/ops/tensor/slice.h"

namespace genesis {

// Shapes.
inline Value cat(const std::vector<Value>& xs, int64_t axis = 0) { return concat(xs, axis); }
inline Value view(Value x, Shape shape) { return reshape(x, std::move(shape)); }
inline Value broadcast_to(Value x, Shape shape) { return expand(x, std::move(shape)); }
Value movedim(Value x, int64_t source, int64_t destination);
// Replaces an axis by several, whose sizes have its size as product; one of them may be -1.
Value unflatten(Value x, int64_t axis, const Shape& sizes);
std::vector<Value> unbind(Value x, int64_t axis = 0);
// Returns pieces of `size` elements along `axis`, whose last one may be smaller. The axis has a known size.
std::vector<Value> split_every(Value x, int64_t size, int64_t axis);
template <std::integral Size>  // split(x, {2}, 0) takes the sizes of all pieces
std::vector<Value> split(Value x, Size size, int64_t axis = 0) {
  return split_every(x, static_cast<int64_t>(size), axis);
}

// Reductions.
inline Value amax(Value x, const AxisList& axes = {}, bool keep_dims = false) {
  return max(x, axes, keep_dims);
}
inline Value amin(Value x, const AxisList& axes = {}, bool keep_dims = false) {
  return min(x, axes, keep_dims);
}
// The square root of the sum of squares (torch.linalg.vector_norm).
Value norm(Value x, const AxisList& axes = {}, bool keep_dims = false);
Value count_nonzero(Value x, const AxisList& axes = {});  // i64

// Elements.
inline Value masked_fill(Value x, Value mask, Scalar value) { return where(mask, value, x); }
Value logical_xor(Value a, Value b);
Value relu6(Value x);
Value hardtanh(Value x, double min = -1, double max = 1);
Value hardsigmoid(Value x);
Value logsigmoid(Value x);
Value selu(Value x);
Value glu(Value x, int64_t axis = -1);  // a sigmoid(b) of the halves a and b of x along `axis`
// x / max(norm(x, axis), eps)
Value normalize(Value x, int64_t axis = 1, double eps = 1e-12);
Value cosine_similarity(Value a, Value b, int64_t axis = 1, double eps = 1e-8);

// torch.nn.functional.scaled_dot_product_attention of q, k and v [batch, heads, time, head_size]. mask: bool (true = visible) or
// float (added to the scores). scale 0 is 1 / sqrt(head_size). k and v may have fewer heads (grouped-query attention).
Value scaled_dot_product_attention(Value q, Value k, Value v, Value mask = {}, bool is_causal = false,
                                   double scale = 0);

// Losses.
inline Value binary_cross_entropy(Value probabilities, Value target, Value weight = {},
                                  Reduction reduction = Reduction::kMean) {
  return bce_loss(probabilities, target, weight, reduction);
}
inline Value binary_cross_entropy_with_logits(Value x, Value target, Value weight = {}, Value pos_weight = {},
                                              Reduction reduction = Reduction::kMean) {
  return bce_with_logits_loss(x, target, weight, pos_weight, reduction);
}
inline Value kl_div(Value input, Value target, bool log_target = false,
                    Reduction reduction = Reduction::kMean) {
  return kl_div_loss(input, target, log_target, reduction);
}

}  // namespace genesis
