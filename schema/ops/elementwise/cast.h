// Conversion between dtypes, of one tensor or from two halves. Reals convert to integers by truncation toward zero; conversion to
// bool is x != 0. schema/ops/tensor/cast_group.h converts many tensors in one node.
#pragma once

#include "schema/graph/graph.h"

namespace genesis {

namespace ops {

struct Cast {
  static constexpr OpInfo info{.name = "cast",
                               .doc = "x converted to `dtype`.",
                               .precision = Precision::kFollow,
                               .elementwise = true,
                               .in_place = kOverFirst};
  DType dtype = DType::f32;
  static void fields(auto& self, auto&& visit) { visit("dtype", self.dtype); }
  std::vector<TensorType> infer(Types in) const;
  void grad(GradientContext& g) const;
};

// Joins an f32 from its halves (schema/core/halves.h).
struct JoinHalves : NoAttributes {
  static constexpr OpInfo info{.name = "join_halves",
                               .doc =
                                   "f32 values from two halves: the upper one as bf16, the lower 16 bits as "
                                   "i16. The bf16 was rounded, with ties away from zero.",
                               .inputs = {2, 2},
                               .precision = Precision::kExact};
  std::vector<TensorType> infer(Types in) const;
};

}  // namespace ops

Value cast(Value x, DType dtype);  // returns x itself if it already has that dtype
Value join_halves(Value upper, Value lower);

}  // namespace genesis
