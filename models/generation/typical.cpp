#include "models/generation/typical.h"

#include <limits>

#include "builder/genesis.h"

namespace genesis::text {

Value typical(Value logits, Value temperature, Value mass) {
  const Dim rows = logits.dim(0), vocabulary = logits.dim(1);
  const Value scale = temperature.rank() == 0 ? temperature : unsqueeze(temperature, 1);
  const Value wanted = reshape(mass, {rows, 1});
  const Value log_p = log_softmax(cast(logits, DType::f32) / scale, -1), p = exp(log_p);
  const Value possible = gt(p, 0), entropy = -sum(where(possible, p * log_p, scalar_like(p, 0)), {1}, true);
  const Value distance = abs(log_p + entropy);
  const ValuesAndIndices nearest = sort(distance, 1);
  const Value masses = cumsum(gather(p, 1, nearest.indices), 1);
  const Value place =
      minimum(sum(cast(lt(masses, wanted), DType::i64), {1}, true), dim_value(*logits.graph, vocabulary) - 1);
  // The comparison is written so that a NaN is kept, which the choice of a token reports.
  const Value is_far = gt(distance, gather(nearest.values, 1, place));
  const Value leaves_out = logical_and(is_far, lt(wanted, 1));
  return where(leaves_out, scalar_like(logits, -std::numeric_limits<double>::infinity()), logits);
}

}  // namespace genesis::text
