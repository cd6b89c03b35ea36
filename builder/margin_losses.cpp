#include "builder/margin_losses.h"

#include <cmath>
#include <numbers>

#include "builder/functions.h"
#include "schema/core/error.h"
#include "schema/ops/create.h"
#include "schema/ops/elementwise/cast.h"
#include "schema/ops/elementwise/elementwise.h"
#include "schema/ops/tensor/index.h"
#include "schema/ops/tensor/reduce.h"
#include "schema/ops/tensor/reshape.h"

namespace genesis {
namespace {

Value wide(Value x) { return cast(x, wide_dtype(x.dtype())); }

Value reduced(Value loss, Reduction reduction) {
  if (reduction == Reduction::kNone) return loss;
  return reduction == Reduction::kMean ? mean(loss) : sum(loss);
}

// The distance of rows, the last axis of d.
Value norm_of_rows(Value d, double p, bool keep_dims) {
  if (!(p > 0)) fail("pairwise_distance: the exponent of the norm is {}, expected more than 0", p);
  if (p == 1) return sum(abs(d), -1, keep_dims);
  if (p == 2) return sqrt(sum(square(d), -1, keep_dims));
  if (std::isinf(p)) return max(abs(d), -1, keep_dims);
  return pow(sum(pow(abs(d), p), -1, keep_dims), 1 / p);
}

}  // namespace

Value pairwise_distance(Value x1, Value x2, double p, double eps, bool keep_dims) {
  return norm_of_rows(wide(x1) - wide(x2) + eps, p, keep_dims);
}

Value margin_ranking_loss(Value x1, Value x2, Value target, double margin, Reduction reduction) {
  return reduced(relu(wide(target) * (wide(x2) - wide(x1)) + margin), reduction);
}

Value hinge_embedding_loss(Value x, Value target, double margin, Reduction reduction) {
  const Value own = wide(x);
  return reduced(where(target == 1, own, relu(margin - own)), reduction);
}

Value soft_margin_loss(Value x, Value target, Reduction reduction) {
  return reduced(softplus(-wide(target) * wide(x)), reduction);
}

Value cosine_embedding_loss(Value x1, Value x2, Value target, double margin, Reduction reduction) {
  constexpr double kEpsilon = 1e-12;  // PyTorch adds it to the squares, too
  const Value a = wide(x1), b = wide(x2);
  const Value lengths = sqrt((sum(square(a), -1) + kEpsilon) * (sum(square(b), -1) + kEpsilon));
  const Value cosine = sum(a * b, -1) / lengths;
  return reduced(where(target == 1, 1.0 - cosine, relu(cosine - margin)), reduction);
}

Value triplet_margin_loss(Value anchor, Value positive, Value negative, double margin, double p, double eps,
                          bool swap, Reduction reduction) {
  Value apart = pairwise_distance(anchor, negative, p, eps);
  if (swap) apart = minimum(apart, pairwise_distance(positive, negative, p, eps));
  return reduced(relu(pairwise_distance(anchor, positive, p, eps) - apart + margin), reduction);
}

Value multilabel_soft_margin_loss(Value x, Value target, Value weight, Reduction reduction) {
  const Value each = bce_with_logits_loss(x, target, weight, {}, Reduction::kNone);
  return reduced(mean(each, -1), reduction);
}

Value multi_margin_loss(Value x, Value target, int64_t p, double margin, Value weight, Reduction reduction) {
  if (p != 1 && p != 2) fail("multi_margin_loss: p is {}, expected 1 or 2", p);
  if (x.rank() != 2 || target.rank() != 1)
    fail("multi_margin_loss takes x [rows, classes] and targets [rows], got {} and {}", x.type().to_string(),
         target.type().to_string());
  const Value own = wide(x), column = unsqueeze(cast(target, DType::i64), 1);
  const Value classes = arange(*x.graph, x.dim(1));
  Value each = relu(margin - gather(own, 1, column) + own);
  if (p == 2) each = square(each);
  if (weight) each = each * unsqueeze(index_select(wide(weight), 0, cast(target, DType::i64)), 1);
  each = where(column == classes, Scalar(0.0), each);
  return reduced(mean(each, 1), reduction);
}

Value poisson_nll_loss(Value x, Value target, bool log_input, bool full, double eps, Reduction reduction) {
  const Value own = wide(x), t = wide(target);
  Value loss = log_input ? exp(own) - t * own : own - t * log(own + eps);
  if (full) {
    const Value safe = maximum(t, 1.0);
    const Value stirling = safe * log(safe) - safe + log(safe * (2 * std::numbers::pi)) * 0.5;
    loss = loss + where(t > 1, stirling, Scalar(0.0));
  }
  return reduced(loss, reduction);
}

Value gaussian_nll_loss(Value x, Value target, Value var, bool full, double eps, Reduction reduction) {
  const Value limited = maximum(wide(var), eps);
  Value loss = (log(limited) + square(wide(x) - wide(target)) / limited) * 0.5;
  if (full) loss = loss + 0.5 * std::log(2 * std::numbers::pi);
  return reduced(loss, reduction);
}

}  // namespace genesis
