#include "passes/core/stored_values.h"

#include "schema/ops/elementwise/cast.h"

namespace genesis::passes {

Value value_of_parts(const StateFormat& format, const std::function<Value(size_t)>& part, DType dtype) {
  const std::optional<size_t> rounded = format.rounded_part();
  if (rounded && format.parts[*rounded].dtype == dtype) return part(*rounded);
  const Value first = part(0);
  if (&format == &bf16_halves_format()) return cast(join_halves(first, part(1)), dtype);
  GENESIS_ASSERT(format.parts.size() == 1);
  return cast(first, dtype);
}

}  // namespace genesis::passes
