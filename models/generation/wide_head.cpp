#include "models/generation/wide_head.h"

#include "passes/core/addend.h"
#include "passes/core/match.h"
#include "schema/ops/elementwise/cast.h"
#include "schema/ops/nn/matmul.h"
#include "schema/ops/tensor/reshape.h"

namespace genesis::text {

const Node* rounding_head(const Graph& from) {
  for (const NamedValue& output : from.outputs()) {
    if (output.name != "logits") continue;
    const auto widening = passes::match<ops::Cast>(from, output.value);
    ValueId product = widening ? widening.input(0) : output.value;
    if (const auto rows = passes::match<ops::Reshape>(from, product)) product = rows.input(0);
    const auto layer = passes::match<ops::Linear>(from, product);
    const bool rounds = is_low_precision(from.type(product).dtype);
    if (rounds && passes::is_bare_product(layer)) return layer.node;
  }
  return nullptr;
}

Value widened_head(const Node& head, const std::vector<Value>& operands) {
  auto op = from_attributes<ops::Linear>(head.attributes);
  op.wide = true;
  return emit(op, operands);
}

}  // namespace genesis::text
