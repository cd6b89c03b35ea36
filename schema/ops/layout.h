// Ops that move elements without changing them.
#pragma once

#include "schema/graph.h"

namespace genesis {

namespace ops {

struct Expand {
  static constexpr OpInfo info{.name = "expand", .doc = "x broadcast to `shape`, aligned right."};
  Shape shape;
  static void fields(auto& self, auto&& visit) { visit("shape", self.shape); }
  std::vector<TensorType> infer(Types in) const;
  void grad(GradientContext& g) const;
};

}  // namespace ops

Value permute(Value x, std::vector<int64_t> axes);
Value transpose(Value x, int64_t axis_a = -2, int64_t axis_b = -1);
Value expand(Value x, Shape shape);  // broadcast to `shape`, aligned right
Value flip(Value x, std::vector<int64_t> axes);
Value roll(Value x, std::vector<int64_t> shifts, std::vector<int64_t> axes);
Value tile(Value x, std::vector<int64_t> repeats);
Value repeat_interleave(Value x, int64_t repeats, int64_t axis);
Value tril(Value x, int64_t diagonal = 0);
Value triu(Value x, int64_t diagonal = 0);

}  // namespace genesis
