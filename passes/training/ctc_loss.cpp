#include "passes/training/ctc_loss.h"

#include "schema/core/error.h"
#include "schema/ops/create.h"
#include "schema/ops/elementwise/cast.h"
#include "schema/ops/elementwise/elementwise.h"
#include "schema/ops/nn/loss.h"
#include "schema/ops/nn/softmax.h"
#include "schema/ops/tensor/index.h"
#include "schema/ops/tensor/layout.h"
#include "schema/ops/tensor/reduce.h"
#include "schema/ops/tensor/reshape.h"
#include "schema/ops/tensor/slice.h"

namespace genesis::passes {
namespace {

// Stands for the logarithm of 0. Sums of it with itself stay finite, so that gradients are numbers.
constexpr double kImpossible = -1e30;

Value impossible_like(Value x) { return scalar_like(x, kImpossible); }

// Shifts the states to the right by `places`.
Value shifted(Value states, int64_t places) {
  return slice(pad(states, {0, places}, {0, 0}, kImpossible), 1, 0, -places);
}

// log(exp a + exp b + exp c), of each element
Value log_sum(Value a, Value b, Value c) { return logsumexp(stack({a, b, c}, 0), {0}); }

}  // namespace

Value ctc_loss(Value logits, Value target) {
  if (!logits.dim(1).is_constant())
    fail("ctc unrolls the time, so it must be known: the logits are {}", logits.type().to_string());
  const int64_t time = logits.dim(1).value();
  const Value log_probabilities = log_softmax(cast(logits, DType::f32), -1);
  const Value is_there = ne(target, scalar_like(target, kIgnoredTarget));
  const Value labels = where(is_there, target, scalar_like(target, 0));  // [batch, length]
  const Value lengths = sum(cast(is_there, DType::i64), {1}, true);      // [batch, 1]
  // The states are a blank before each label and one at the end: blank, label, blank, label, ..., blank.
  const Value zero = labels * 0;
  const Value pairs = flatten(stack({zero, labels}, 2), 1);  // [batch, 2 length]
  const Value states = pad(pairs, {0, 0}, {0, 1}, 0);        // [batch, 2 length + 1]
  // A label may follow the one before it without a blank between them if they differ.
  const Value before = slice(pad(states, {0, 2}, {0, 0}, 0), 1, 0, -2);
  const Value may_skip = logical_and(ne(states, scalar_like(states, 0)), ne(states, before));
  const Value emitted =
      gather(log_probabilities, 2, expand(unsqueeze(states, 1), {states.dim(0), time, states.dim(1)}));
  const Value place = cumsum(states * 0 + 1, 1) - 1;  // 0, 1, 2, ...
  const Value first = select(emitted, 1, 0);
  Value alpha = where(lt(place, scalar_like(place, 2)), first, impossible_like(first));
  for (int64_t t = 1; t < time; ++t) {
    const Value skipped = where(may_skip, shifted(alpha, 2), impossible_like(alpha));
    alpha = log_sum(alpha, shifted(alpha, 1), skipped) + select(emitted, 1, t);
  }
  // A text ends in its last label or in the blank behind it.
  const Value end = 2 * lengths;
  const Value ends = logical_or(eq(place, end), eq(place, end - 1));
  const Value likelihood = logsumexp(where(ends, alpha, impossible_like(alpha)), {1});
  const Value counted = cast(maximum(squeeze(lengths, 1), scalar_like(lengths, 1)), DType::f32);
  return mean(-1.0 * likelihood / counted);
}

}  // namespace genesis::passes
