// Slices of tensors, and tensors joined from others. schema/ops/tensor/dynamic_slice.h has slices whose start is data.
#pragma once

#include <limits>

#include "schema/graph/graph.h"

namespace genesis {

inline constexpr int64_t kToEnd = std::numeric_limits<int64_t>::max();

enum class PadMode : uint8_t { kConstant, kReflect, kReplicate, kCircular };

namespace ops {

// Bounds are resolved: 0 <= start, and every element taken lies inside. start and length are Shapes of rank 1, because they may
// be symbolic.
struct Slice {
  static constexpr OpInfo info{
      .name = "slice",
      .doc = "`length[0]` elements along `axis`, from `start[0]` in steps of `step`.",
      .precision = Precision::kFollow};
  int64_t axis = 0;
  Shape start{0}, length{0};
  int64_t step = 1;
  static void fields(auto& self, auto&& visit) {
    visit("axis", self.axis);
    visit("start", self.start);
    visit("length", self.length);
    visit("step", self.step);
  }
  std::vector<TensorType> infer(Types in) const;
  Cost cost(Types, Types out) const { return cost_of_copy(out[0]); }
  void grad(GradientContext& g) const;
  std::optional<int64_t> view_offset(Types in) const;
};

// The gradient of slice: zeros of size `size[0]` along `axis`, with x written where slice would read.
struct Unslice {
  static constexpr OpInfo info{.name = "unslice",
                               .doc = "Zeros with x at `start[0]` in steps of `step` along `axis`.",
                               .precision = Precision::kFollow};
  int64_t axis = 0;
  Shape start{0}, size{0};
  int64_t step = 1;
  static void fields(auto& self, auto&& visit) {
    visit("axis", self.axis);
    visit("start", self.start);
    visit("size", self.size);
    visit("step", self.step);
  }
  std::vector<TensorType> infer(Types in) const;
  void grad(GradientContext& g) const;
};

struct Concat {
  static constexpr OpInfo info{.name = "concat",
                               .doc = "All inputs, one after the other along `axis`.",
                               .inputs = {1, kVariadic},
                               .precision = Precision::kFollow};
  int64_t axis = 0;
  static void fields(auto& self, auto&& visit) { visit("axis", self.axis); }
  std::vector<TensorType> infer(Types in) const;
  void grad(GradientContext& g) const;
};

struct Split {
  static constexpr OpInfo info{
      .name = "split", .doc = "x cut along `axis` into slices of `sizes`.", .precision = Precision::kFollow};
  int64_t axis = 0;
  std::vector<int64_t> sizes;
  static void fields(auto& self, auto&& visit) {
    visit("axis", self.axis);
    visit("sizes", self.sizes);
  }
  std::vector<TensorType> infer(Types in) const;
  void grad(GradientContext& g) const;
};

// One amount per axis; negative amounts crop.
struct Pad {
  static constexpr OpInfo info{.name = "pad",
                               .doc = "x with `value` around it; negative amounts cut off.",
                               .precision = Precision::kFollow};
  std::vector<int64_t> before, after;
  double value = 0;
  static void fields(auto& self, auto&& visit) {
    visit("before", self.before);
    visit("after", self.after);
    visit("value", self.value);
  }
  std::vector<TensorType> infer(Types in) const;
  void grad(GradientContext& g) const;
};

}  // namespace ops

// Returns x[start:end:step] along `axis` with Python's rules for negative and out-of-range bounds. step may be negative (kToEnd
// then means "past the first element"). Along a symbolic axis bounds cannot be clamped: they must fit when the symbol is bound.
Value slice(Value x, int64_t axis, int64_t start, int64_t end = kToEnd, int64_t step = 1);
// Returns `length` elements along `axis` from `start`; sizes may be symbolic: narrow(x, 0, 0, batch).
Value narrow(Value x, int64_t axis, Dim start, Dim length);
Value select(Value x, int64_t axis, int64_t index);  // removes the axis
Value concat(const std::vector<Value>& xs, int64_t axis);
Value stack(const std::vector<Value>& xs, int64_t axis = 0);
std::vector<Value> split(Value x, const std::vector<int64_t>& sizes, int64_t axis);
std::vector<Value> chunk(Value x, int64_t chunks, int64_t axis);  // equal sizes
// Pads by one amount per axis. kReflect leaves out the edge (as torch does); only kConstant takes negative amounts and a value.
Value pad(Value x, std::vector<int64_t> before, std::vector<int64_t> after, double value = 0,
          PadMode mode = PadMode::kConstant);
}  // namespace genesis
