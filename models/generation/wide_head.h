// The head of a language model, whose logits must not be rounded before a token is chosen from them.
#pragma once

#include <vector>

#include "schema/graph/graph.h"

namespace genesis::text {

// Returns the matrix product that computes the output "logits" if it rounds them to 16 bits, else null: then close logits would
// tie, and the lower token would win. Models built now have a wide head; those in older files do not.
const Node* rounding_head(const Graph& from);

// Returns the logits of this product with these operands, in f32.
Value widened_head(const Node& head, const std::vector<Value>& operands);

}  // namespace genesis::text
