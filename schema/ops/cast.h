// Conversion between dtypes. Reals to integers truncate toward zero; anything to bool is x != 0.
#pragma once

#include "schema/graph.h"

namespace genesis {

namespace ops {

inline constexpr InPlace kCastInPlace[] = {{0, 0}};

struct Cast {
  static constexpr OpInfo info{.name = "cast",
                               .doc = "x converted to `dtype`.",
                               .precision = Precision::kFollow,
                               .elementwise = true,
                               .in_place = kCastInPlace};
  DType dtype = DType::f32;
  static void fields(auto& self, auto&& visit) { visit("dtype", self.dtype); }
  std::vector<TensorType> infer(Types in) const;
  void grad(GradientContext& g) const;
};

}  // namespace ops

Value cast(Value x, DType dtype);  // x itself when it already has that dtype

}  // namespace genesis
