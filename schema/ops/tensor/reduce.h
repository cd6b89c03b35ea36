// Reductions. Empty `axes` means all axes; `keep_dims` keeps them with size 1. Sums of integers and bools are i64; low precision
// accumulates in f32. Only the shape determines the order of summation. The author functions write the axes out: sorted, not
// negative.
//
//     const Value total = sum(x), of_rows = sum(x, -1), centered = x - mean(x, {0, 1}, true);
#pragma once

#include <concepts>
#include <initializer_list>

#include "schema/graph/graph.h"

namespace genesis {

using Axes = std::vector<int64_t>;

namespace ops {

// Common attributes of most reductions.
struct OverAxes {
  Axes axes;
  bool keep_dims = false;
  static void fields(auto& self, auto&& visit) {
    visit("axes", self.axes);
    visit("keep_dims", self.keep_dims);
  }
};

struct Sum : OverAxes {
  static constexpr OpInfo info{
      .name = "sum", .doc = "Sum over `axes` (all when empty).", .precision = Precision::kF32};
  std::vector<TensorType> infer(Types in) const;
  double sum_length(Types in, Types out) const { return elements_each(in, out[0]); }
  void grad(GradientContext& g) const;
};

struct Mean : OverAxes {
  static constexpr OpInfo info{
      .name = "mean", .doc = "Mean over `axes` (all when empty).", .precision = Precision::kF32};
  std::vector<TensorType> infer(Types in) const;
  double sum_length(Types in, Types out) const { return elements_each(in, out[0]); }
  void grad(GradientContext& g) const;
};

struct Prod : OverAxes {
  static constexpr OpInfo info{
      .name = "prod", .doc = "Product over `axes` (all when empty).", .precision = Precision::kF32};
  std::vector<TensorType> infer(Types in) const;
  double sum_length(Types in, Types out) const { return elements_each(in, out[0]); }
  void grad(GradientContext& g) const;
};

struct Max : OverAxes {
  static constexpr OpInfo info{
      .name = "max", .doc = "Greatest element over `axes`; NaN wins.", .precision = Precision::kFollow};
  std::vector<TensorType> infer(Types in) const;
  void grad(GradientContext& g) const;
};

struct Min : OverAxes {
  static constexpr OpInfo info{
      .name = "min", .doc = "Least element over `axes`; NaN wins.", .precision = Precision::kFollow};
  std::vector<TensorType> infer(Types in) const;
  void grad(GradientContext& g) const;
};

struct Any : OverAxes {
  static constexpr OpInfo info{
      .name = "any", .doc = "True if any element over `axes` is not zero.", .precision = Precision::kExact};
  std::vector<TensorType> infer(Types in) const;
};

struct All : OverAxes {
  static constexpr OpInfo info{
      .name = "all", .doc = "True if all elements over `axes` are not zero.", .precision = Precision::kExact};
  std::vector<TensorType> infer(Types in) const;
};

struct LogSumExp : OverAxes {
  static constexpr OpInfo info{
      .name = "logsumexp", .doc = "log(sum(exp(x))) over `axes`.", .precision = Precision::kF32};
  std::vector<TensorType> infer(Types in) const;
  double sum_length(Types in, Types out) const { return elements_each(in, out[0]); }
  void grad(GradientContext& g) const;
};

// Common attributes of Var and Std, which divide by max(0, n - correction).
struct Moment : OverAxes {
  int64_t correction = 1;
  static void fields(auto& self, auto&& visit) {
    OverAxes::fields(self, visit);
    visit("correction", self.correction);
  }
};

struct Var : Moment {
  static constexpr OpInfo info{.name = "var", .doc = "Variance over `axes`.", .precision = Precision::kF32};
  std::vector<TensorType> infer(Types in) const;
  double sum_length(Types in, Types out) const { return elements_each(in, out[0]); }
  void grad(GradientContext& g) const;
};

struct Std : Moment {
  static constexpr OpInfo info{
      .name = "std", .doc = "Standard deviation over `axes`.", .precision = Precision::kF32};
  std::vector<TensorType> infer(Types in) const;
  double sum_length(Types in, Types out) const { return elements_each(in, out[0]); }
  void grad(GradientContext& g) const;
};

struct OneAxis {
  int64_t axis = -1;
  bool keep_dims = false;
  static void fields(auto& self, auto&& visit) {
    visit("axis", self.axis);
    visit("keep_dims", self.keep_dims);
  }
};

struct ArgMax : OneAxis {
  static constexpr OpInfo info{.name = "argmax",
                               .doc = "Index of the first greatest element; NaN is greatest.",
                               .precision = Precision::kExact};
  std::vector<TensorType> infer(Types in) const;
};

struct ArgMin : OneAxis {
  static constexpr OpInfo info{.name = "argmin",
                               .doc = "Index of the first least element; NaN is least.",
                               .precision = Precision::kExact};
  std::vector<TensorType> infer(Types in) const;
};

struct CumSum {
  static constexpr OpInfo info{.name = "cumsum",
                               .doc = "Running sum along `axis`, from the end when `reverse`.",
                               .precision = Precision::kF32};
  int64_t axis = -1;
  bool reverse = false;
  static void fields(auto& self, auto&& visit) {
    visit("axis", self.axis);
    visit("reverse", self.reverse);
  }
  std::vector<TensorType> infer(Types in) const;
  double sum_length(Types in, Types) const { return row_length(in[0]); }
  void grad(GradientContext& g) const;
};

}  // namespace ops

// Returns the axes that a list names: sorted, not negative; an empty list names all axes. Throws Error for repeats.
std::vector<int> normalize_axes(const Axes& axes, int rank);

// Axes as an author writes them: -1, {0, 1}, or {} for all.
struct AxisList {
  Axes axes;

  AxisList() = default;
  AxisList(std::initializer_list<int64_t> list) : axes(list) {}
  AxisList(Axes list) : axes(std::move(list)) {}
  template <std::integral Axis>
  requires(!std::same_as<Axis, bool>)  // sum(x, true) is a forgotten axis
      AxisList(Axis axis)
      : axes{static_cast<int64_t>(axis)} {}
};

Value sum(Value x, const AxisList& axes = {}, bool keep_dims = false);
Value mean(Value x, const AxisList& axes = {}, bool keep_dims = false);  // reals only
Value prod(Value x, const AxisList& axes = {}, bool keep_dims = false);
// The greatest element (torch.amax): NaN if any element is NaN; ties share the gradient evenly.
Value max(Value x, const AxisList& axes = {}, bool keep_dims = false);
Value min(Value x, const AxisList& axes = {}, bool keep_dims = false);
Value argmax(Value x, int64_t axis = -1, bool keep_dims = false);  // i64; the first of equal elements
Value argmin(Value x, int64_t axis = -1, bool keep_dims = false);
Value var(Value x, const AxisList& axes = {}, int64_t correction = 1, bool keep_dims = false);
Value stddev(Value x, const AxisList& axes = {}, int64_t correction = 1, bool keep_dims = false);
Value logsumexp(Value x, const AxisList& axes = {}, bool keep_dims = false);
Value any(Value x, const AxisList& axes = {}, bool keep_dims = false);
Value all(Value x, const AxisList& axes = {}, bool keep_dims = false);
Value cumsum(Value x, int64_t axis, bool reverse = false);
// Undoes broadcasting: sums x over the axes along which `shape` expands to x's shape.
Value sum_to(Value x, const Shape& shape);

}  // namespace genesis
