// Reductions. `axes` empty means all axes; `keep_dims` keeps them with size 1. Sums of integers and bools are
// i64; low precision accumulates in f32. The order of summation is fixed by the shape alone.
#pragma once

#include "schema/graph.h"

namespace genesis {

namespace ops {

struct Sum {
  static constexpr OpInfo info{
      .name = "sum", .doc = "Sum over `axes` (all when empty).", .precision = Precision::kWide};
  std::vector<int64_t> axes;
  bool keep_dims = false;
  static void fields(auto& self, auto&& visit) {
    visit("axes", self.axes);
    visit("keep_dims", self.keep_dims);
  }
  std::vector<TensorType> infer(Types in) const;
  void grad(GradientContext& g) const;
};

}  // namespace ops

using Axes = std::vector<int64_t>;

Value sum(Value x, Axes axes = {}, bool keep_dims = false);
Value mean(Value x, Axes axes = {}, bool keep_dims = false);
Value prod(Value x, Axes axes = {}, bool keep_dims = false);
Value max(Value x, Axes axes = {},
          bool keep_dims = false);  // NaN wins; gradient shared evenly by ties (torch.amax)
Value min(Value x, Axes axes = {}, bool keep_dims = false);
Value argmax(Value x, int64_t axis = -1, bool keep_dims = false);  // i64; first of equals
Value argmin(Value x, int64_t axis = -1, bool keep_dims = false);
Value var(Value x, Axes axes = {}, int64_t correction = 1, bool keep_dims = false);
Value std(Value x, Axes axes = {}, int64_t correction = 1, bool keep_dims = false);
Value logsumexp(Value x, Axes axes = {}, bool keep_dims = false);
Value any(Value x, Axes axes = {}, bool keep_dims = false);
Value all(Value x, Axes axes = {}, bool keep_dims = false);
Value cumsum(Value x, int64_t axis, bool reverse = false);

// Undoes broadcasting: sums x over the axes along which `shape` expands to x's shape.
Value sum_to(Value x, const Shape& shape);

}  // namespace genesis
