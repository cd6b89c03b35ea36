// Ops that only change the axes of dense memory, so their results are views.
#pragma once

#include "schema/graph/graph.h"

namespace genesis {

namespace ops {

struct Reshape {
  static constexpr OpInfo info{.name = "reshape",
                               .doc = "The same elements in row-major order under another `shape`.",
                               .precision = Precision::kFollow,
                               .in_place = kOverFirst};
  Shape shape;  // resolved: no -1
  static void fields(auto& self, auto&& visit) { visit("shape", self.shape); }

  std::vector<TensorType> infer(Types in) const;
  void grad(GradientContext& g) const;
  std::optional<int64_t> view_offset(Types) const;
};

}  // namespace ops

Value reshape(Value x, Shape shape);  // one size may be -1; symbols are matched algebraically
Value flatten(Value x, int64_t start_axis = 0, int64_t end_axis = -1);
Value squeeze(Value x, int64_t axis);
Value unsqueeze(Value x, int64_t axis);  // -1 appends

}  // namespace genesis
