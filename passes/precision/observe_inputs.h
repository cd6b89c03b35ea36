// Makes entry points that observe the inputs of products: what rounding with calibration (schema/encoding/calibrated_rounding.h)
// measures on a text.
#pragma once

#include <set>
#include <span>
#include <vector>

#include "schema/graph/graph.h"

namespace genesis::passes {

// An x [..., width] that products x weight^T read.
struct ObservedInput {
  ValueId x;
  int64_t width = 0;
  std::vector<int32_t> weights;  // states

  int64_t gram_bytes() const { return width * width * int64_t{sizeof(float)}; }
};

// Returns the inputs of the products with weights of `states` [out, in], in the order of the graph. Each weight belongs to the
// first input that it is multiplied with.
std::vector<ObservedInput> observed_inputs(const Graph& entry, const std::set<int32_t>& states);

// Returns the entry point with other outputs: gram_0, gram_1 and so on, for each input the products x^T x, f32 [..., width,
// width], which are to be summed over the leading axes. What they do not need is left out, and so are updates of states.
Graph observe(const Graph& entry, std::span<const ObservedInput> inputs);

}  // namespace genesis::passes
