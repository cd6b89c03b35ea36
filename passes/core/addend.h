// Says which layers can take an addend, or give their sums in f32: those whose results are sums of products and nothing else.
#pragma once

#include "passes/core/match.h"
#include "schema/ops/nn/matmul.h"

namespace genesis::passes {

// Returns true if the node is one product with an unquantized weight, and perhaps a bias, whose result no activation and no
// addend changes.
inline bool is_bare_product(const Matched<ops::Linear>& layer) {
  return layer && layer->is_unquantized_product() && layer->activation == Activation::kNone &&
         !layer->has_addend;
}

}  // namespace genesis::passes
