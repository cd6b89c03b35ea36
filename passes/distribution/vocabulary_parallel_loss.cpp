#include "passes/distribution/vocabulary_parallel_loss.h"

#include <algorithm>

#include "passes/core/match.h"
#include "schema/ops/collective/collective.h"
#include "schema/ops/create.h"
#include "schema/ops/elementwise/cast.h"
#include "schema/ops/elementwise/elementwise.h"
#include "schema/ops/nn/loss.h"
#include "schema/ops/nn/matmul.h"
#include "schema/ops/tensor/reduce.h"
#include "schema/ops/tensor/reshape.h"
#include "schema/ops/tensor/slice.h"
#include "schema/ranks/mesh_axes.h"

namespace genesis::passes {
namespace {

// The settings that are the same for all rows.
struct Classes {
  ops::IndexRange range;
  int64_t own = 0, ranks = 1, ignore_index = kIgnoredTarget;
  double label_smoothing = 0;
};

template <class Op>
Classes classes_of(const Op& op, const Dim& own, const FactorShard& shard) {
  const int64_t count = own.value();
  return {
      {shard.place * count, shard.ranks * count}, count, shard.ranks, op.ignore_index, op.label_smoothing};
}

Value counting(Value target, int64_t ignore_index) { return ne(target, scalar_like(target, ignore_index)); }

// The part of each row's loss for this rank's classes, and the log-sum-exp of all classes. [...]
struct Rows {
  Value loss, lse;
};

// The op returns, over this rank's classes, the sum of share * (lse of its classes - logit). Missing is the sum of these shares
// times (lse of all classes - lse of its classes). where() keeps out a difference of two infinities on a rank without the
// target.
Rows join_rows(const Classes& classes, Value logits, Value target) {
  const ops::CrossEntropy op{
      {classes.ignore_index, classes.label_smoothing, Reduction::kNone}, true, classes.range};
  const std::vector<Value> own = emit_node(op, {logits, target});
  const Value lse = logsumexp(all_gather(unsqueeze(own[1], 0), kTensorAxis, classes.ranks), {0});
  const Value more = lse - own[1], zero = scalar_like(more, 0);
  const int64_t first = classes.range.first_index;
  const Value is_own = logical_and(ge(target, scalar_like(target, first)),
                                   lt(target, scalar_like(target, first + classes.own)));
  Value rest = where(is_own, more * (1 - classes.label_smoothing), zero);
  if (classes.label_smoothing != 0)
    rest = rest + more * (classes.label_smoothing / static_cast<double>(classes.ranks));
  return {own[0] + where(counting(target, classes.ignore_index), rest, zero), lse};
}

// Returns the divisor of a mean over the rows.
Value count_of(Value target, int64_t ignore_index, DType dtype) {
  return cast(sum(cast(counting(target, ignore_index), DType::i64)), dtype);
}

Value loss_of_all(Value sum_of_own, Reduction reduction, Value divisor) {
  const Value all = all_reduce(sum_of_own, kTensorAxis);
  return reduction == Reduction::kMean ? all / divisor : all;
}

// f16 has no small numbers: gradients with respect to logits are kept this many times larger until they are summed in f32.
constexpr double kF16Boost = 1024;

// Processes one block of rows after the other: its logits, its part of the loss, and what it adds to the gradients. No block
// waits for a later one: the divisor of a mean is applied to the gradients at the end.
class Blocks {
 public:
  // `divisor` is that of a mean.
  Blocks(const ops::LinearCrossEntropy& op, Value weight, Value divisor, const Classes& classes)
      : op_(op),
        classes_(classes),
        weight_(weight),
        divisor_(divisor),
        boost_(weight.dtype() == DType::f16 ? kF16Boost : 1) {}

  void add(Value x, Value target) {
    const Value logits = linear(x, weight_);
    const Rows rows = join_rows(classes_, logits, target);
    const Value loss = sum(rows.loss);
    loss_ = loss_ ? loss_ + loss : loss;
    if (op_.with_gradients) add_gradients(x, logits, target, rows.lse);
  }

  Value loss() const { return loss_of_all(loss_, op_.reduction, divisor_); }
  Value dx() const { return scaled(all_reduce(dx_.size() > 1 ? concat(dx_, 0) : dx_[0], kTensorAxis)); }
  Value dweight() const { return scaled(dweight_); }

 private:
  void add_gradients(Value x, Value logits, Value target, Value lse) {
    const ops::CrossEntropyGrad op{{op_.ignore_index, op_.label_smoothing, Reduction::kSum}, classes_.range};
    const Value dy = full(*divisor_.graph, {}, boost_, divisor_.dtype());
    const Value dlogits = emit(op, {logits, target, lse, dy});
    dx_.push_back(matmul({.wide = x.dtype() == DType::f16}, {dlogits, weight_})[0]);
    if (op_.frozen_weight) return;
    std::vector<Value> inputs = {dlogits, x};
    if (dweight_) inputs.push_back(dweight_);
    dweight_ = matmul({.transpose_a = true, .wide = true}, inputs)[0];
  }

  // If no row counts, the gradients are zero; the divisor 1 keeps them so.
  Value scaled(Value gradient) const {
    if (op_.reduction != Reduction::kMean) return boost_ == 1 ? gradient : gradient * (1 / boost_);
    const Value one = scalar_like(divisor_, 1);
    const Value divisor = where(eq(divisor_, scalar_like(divisor_, 0)), one, divisor_) * boost_;
    return cast(cast(gradient, divisor.dtype()) / divisor, gradient.dtype());
  }

  const ops::LinearCrossEntropy& op_;
  const Classes& classes_;
  const Value weight_, divisor_;
  const double boost_;
  Value loss_, dweight_;
  std::vector<Value> dx_;
};

// Products are fast for multiples of this number of rows.
constexpr int64_t kRowStep = 128;

// Returns the rows of a block; all blocks but the last have as many.
int64_t rows_at_once(int64_t rows, int64_t logit_bytes_of_row, int64_t logit_bytes) {
  const int64_t most = std::max(logit_bytes / std::max<int64_t>(logit_bytes_of_row, 1), kRowStep);
  const int64_t blocks = std::max<int64_t>(1, (rows + most - 1) / most), each = (rows + blocks - 1) / blocks;
  return std::max<int64_t>(1, (each + kRowStep - 1) / kRowStep * kRowStep);
}

}  // namespace

std::vector<Value> cross_entropy_of_shards(const ops::CrossEntropy& op, Value logits, Value target,
                                           const FactorShard& shard) {
  const Classes classes = classes_of(op, logits.dim(-1), shard);
  const Rows rows = join_rows(classes, logits, target);
  const Value count = count_of(target, op.ignore_index, rows.loss.dtype());
  const bool each = op.reduction == Reduction::kNone;
  std::vector<Value> results = {loss_of_all(each ? rows.loss : sum(rows.loss), op.reduction, count)};
  if (op.with_lse) results.push_back(rows.lse);
  return results;
}

std::vector<Value> linear_cross_entropy_of_shards(const ops::LinearCrossEntropy& op, Value x, Value weight,
                                                  Value target, Value divisor, const FactorShard& shard,
                                                  int64_t logit_bytes) {
  const Classes classes = classes_of(op, weight.dim(0), shard);
  const Shape whole = x.shape();
  const Dim count = target.shape().numel();
  x = reshape(x, {count, x.dim(-1)});
  target = reshape(target, {count});
  const DType wide = wide_dtype(x.dtype());
  Blocks blocks(op, weight, divisor ? cast(divisor, wide) : count_of(target, op.ignore_index, wide), classes);
  const int64_t rows = count.constant().value_or(1);
  const int64_t each =
      count.is_constant()
          ? rows_at_once(rows, classes.own * static_cast<int64_t>(size_of(x.dtype())), logit_bytes)
          : rows;
  for (int64_t first = 0; first == 0 || first < rows; first += each)
    if (rows <= each)
      blocks.add(x, target);
    else
      blocks.add(slice(x, 0, first, std::min(rows, first + each)),
                 slice(target, 0, first, std::min(rows, first + each)));
  std::vector<Value> results = {blocks.loss()};
  if (op.with_gradients) results.push_back(reshape(blocks.dx(), whole));
  if (op.with_gradients && !op.frozen_weight) results.push_back(blocks.dweight());
  return results;
}

}  // namespace genesis::passes
