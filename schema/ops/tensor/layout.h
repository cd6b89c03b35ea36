// Ops that move elements without changing them.
#pragma once

#include "schema/graph/graph.h"

namespace genesis {
namespace ops {

struct Expand {
  static constexpr OpInfo info{
      .name = "expand", .doc = "x broadcast to `shape`, aligned right.", .precision = Precision::kFollow};
  Shape shape;
  static void fields(auto& self, auto&& visit) { visit("shape", self.shape); }
  std::vector<TensorType> infer(Types in) const;
  void grad(GradientContext& g) const;
  std::optional<int64_t> view_offset(Types in) const;
};

struct Permute {
  static constexpr OpInfo info{.name = "permute",
                               .doc = "Axis i of the result is axis `axes[i]` of x.",
                               .precision = Precision::kFollow};
  std::vector<int64_t> axes;
  static void fields(auto& self, auto&& visit) { visit("axes", self.axes); }
  std::vector<TensorType> infer(Types in) const;
  void grad(GradientContext& g) const;
  std::optional<int64_t> view_offset(Types in) const;
};

struct Flip {
  static constexpr OpInfo info{
      .name = "flip", .doc = "x with the order reversed along `axes`.", .precision = Precision::kFollow};
  std::vector<int64_t> axes;
  static void fields(auto& self, auto&& visit) { visit("axes", self.axes); }
  std::vector<TensorType> infer(Types in) const;
  void grad(GradientContext& g) const;
};

struct Roll {
  static constexpr OpInfo info{
      .name = "roll", .doc = "x rotated by `shifts` along `axes`.", .precision = Precision::kFollow};
  std::vector<int64_t> shifts, axes;
  static void fields(auto& self, auto&& visit) {
    visit("shifts", self.shifts);
    visit("axes", self.axes);
  }
  std::vector<TensorType> infer(Types in) const;
  void grad(GradientContext& g) const;
};

// A triangle of the last two axes: element (i, j) is kept if j - i <= diagonal (lower) or j - i >= diagonal (upper).
struct Triangle {
  int64_t diagonal = 0;
  static void fields(auto& self, auto&& visit) { visit("diagonal", self.diagonal); }
  std::vector<TensorType> infer(Types in) const;
};

struct Tril : Triangle {
  static constexpr OpInfo info{.name = "tril",
                               .doc = "x where column - row <= `diagonal`, else 0.",
                               .precision = Precision::kFollow,
                               .in_place = kOverFirst};
  void grad(GradientContext& g) const;
};

struct Triu : Triangle {
  static constexpr OpInfo info{.name = "triu",
                               .doc = "x where column - row >= `diagonal`, else 0.",
                               .precision = Precision::kFollow,
                               .in_place = kOverFirst};
  void grad(GradientContext& g) const;
};

}  // namespace ops

Value permute(Value x, std::vector<int64_t> axes);
Value transpose(Value x, int64_t axis_a = -2, int64_t axis_b = -1);
Value expand(Value x, Shape shape);  // broadcasts x to `shape`, aligned right
Value flip(Value x, std::vector<int64_t> axes);
Value roll(Value x, std::vector<int64_t> shifts, std::vector<int64_t> axes);
Value tile(Value x, std::vector<int64_t> repeats);
Value repeat_interleave(Value x, int64_t repeats, int64_t axis);
Value tril(Value x, int64_t diagonal = 0);
Value triu(Value x, int64_t diagonal = 0);

}  // namespace genesis
