// Converts many tensors of reals in one node, which also concatenates them (schema/ops/elementwise/cast.h converts one).
#pragma once

#include "schema/graph/graph.h"

namespace genesis {

namespace ops {

// Result i is the concatenation of the next parts[i] inputs along their first axis, as `dtype`. One node is used where launching
// a kernel per weight would cost more than the work.
struct CastGroup {
  static constexpr OpInfo info{.name = "cast_group",
                               .doc =
                                   "Many tensors of reals converted to `dtype`: result i takes `parts[i]` "
                                   "inputs, joined along axis 0.",
                               .inputs = {1, kVariadic},
                               .precision = Precision::kFollow};
  DType dtype = DType::bf16;
  std::vector<int64_t> parts;  // number of inputs per result
  static void fields(auto& self, auto&& visit) {
    visit("dtype", self.dtype);
    visit("parts", self.parts);
  }
  std::vector<TensorType> infer(Types in) const;
  void grad(GradientContext& g) const;
};

}  // namespace ops

// Returns the concatenation of each list along axis 0, as `dtype`.
std::vector<Value> cast_group(const std::vector<std::vector<Value>>& results, DType dtype);

}  // namespace genesis
