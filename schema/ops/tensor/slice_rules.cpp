#include "schema/ops/tensor/slice_rules.h"

#include "schema/core/type_limits.h"

namespace genesis {

const Dim& only_size(const Shape& shape, std::string_view attribute) {
  if (shape.rank() != 1) fail("attribute '{}' must hold one size, got {}", attribute, shape.to_string());
  return shape[0];
}

void check_slice(const Dim& start, const Dim& length, int64_t step, const Dim& size) {
  if (step == 0) fail("a slice cannot have step 0");
  check_amount(step, "the step of a slice");
  const Dim last = start + (length - Dim(1)) * Dim(step);
  const auto outside = [&](const Dim& at) {
    if (at.is_constant() && at.value() < 0) return true;
    const Dim beyond = at - size;
    return beyond.is_constant() && beyond.value() >= 0;
  };
  if (length.is_constant() && length.value() < 0) fail("a slice cannot have length {}", length.value());
  if (length == Dim(0) && (start == size || start == Dim(0))) return;
  if (outside(start) || (!(length == Dim(0)) && outside(last)))
    fail("a slice of {} elements from {} in steps of {} leaves the axis of size {}", length.to_string(),
         start.to_string(), step, size.to_string());
}

void check_same_dtypes(Types in, std::string_view op) {
  for (const TensorType& type : in)
    if (type.dtype != in[0].dtype)
      fail("{} takes inputs of one dtype, got {} and {}: cast them first", op, in[0].to_string(),
           type.to_string());
}

}  // namespace genesis
