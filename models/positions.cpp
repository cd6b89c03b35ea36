#include "models/positions.h"

#include "builder/genesis.h"

namespace genesis::models {

Value Positions::length(Graph& graph) const {
  if (text_length) return text_length;
  if (first) return max(cast(ids, DType::f64), {1}) + 1;
  const Value seq = count ? count : dim_value(graph, ids.dim(-1));
  return start ? start + seq : seq;
}

}  // namespace genesis::models
