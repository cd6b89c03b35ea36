// Reads and writes slices of tensors whose start is data.
#pragma once

#include "schema/graph/graph.h"

namespace genesis {

namespace ops {

struct DynamicSlice {
  static constexpr OpInfo info{
      .name = "dynamic_slice",
      .doc = "`length[0]` elements along `axis` from a start that is an input, clamped.",
      .inputs = {2, 2},
      .precision = Precision::kFollow};
  int64_t axis = 0;
  Shape length{0};
  static void fields(auto& self, auto&& visit) {
    visit("axis", self.axis);
    visit("length", self.length);
  }
  std::vector<TensorType> infer(Types in) const;
  Cost cost(Types, Types out) const { return cost_of_copy(out[0]); }
  void grad(GradientContext& g) const;
};

struct DynamicUpdateSlice {
  static constexpr OpInfo info{
      .name = "dynamic_update_slice",
      .doc =
          "x with `update` written along `axis` from a start that is an input, clamped; one start, or one "
          "for each row of axis 0. `length` has one number for each start: only the first `length` elements "
          "of the update along `axis` are written, and they must fit. Inputs x, update, start [, length].",
      .inputs = {3, 4},
      .precision = Precision::kFollow,
      .in_place = kOverFirst};
  int64_t axis = 0;
  static void fields(auto& self, auto&& visit) { visit("axis", self.axis); }
  std::vector<TensorType> infer(Types in) const;
  Cost cost(Types in, Types out) const;
  void grad(GradientContext& g) const;
};

}  // namespace ops

// The start is data: an i32 or i64 scalar. It is clamped so that the slice fits.
Value dynamic_slice(Value x, Value start, int64_t axis, Dim length);
// Returns x with `update` written at position `start` along `axis` (a KV cache append), in place if the planner can. start: as
// above, or integers [x.dim(0)], one per row of axis 0, for an update along another axis. length: integers shaped like start;
// only the first `length` elements of the update along `axis` are written. A write beyond the end of x is then an error of the
// run.
Value dynamic_update_slice(Value x, Value update, Value start, int64_t axis, Value length = {});

}  // namespace genesis
