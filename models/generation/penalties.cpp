#include "models/generation/penalties.h"

#include "builder/genesis.h"

namespace genesis::text {
namespace {

Value is_positive(Value x) { return x > scalar_like(x, 0); }

}  // namespace

Value penalized(Value logits, Value bias, Value in_prompt, Value chosen, Value penalties) {
  const auto penalty = [&](int64_t i) {
    const Value each = select(penalties, 0, i);
    return each.dim(0) == Dim(1) ? reshape(each, {}) : unsqueeze(each, 1);
  };
  const Value x = cast(logits, DType::f32) + bias, repetition = penalty(0);
  const Value repeated = where(is_positive(x), x / repetition, x * repetition);
  return where(is_positive(in_prompt + chosen), repeated, x) -
         cast(is_positive(chosen), DType::f32) * penalty(1) - cast(chosen, DType::f32) * penalty(2);
}

}  // namespace genesis::text
