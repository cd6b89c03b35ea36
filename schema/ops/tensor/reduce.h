// Reductions. `axes` empty means all axes; `keep_dims` keeps them with size 1. Sums of integers and bools are
// i64; low precision accumulates in f32. The order of summation is fixed by the shape alone. The author
// functions write the axes out: sorted, not negative.
#pragma once

#include "schema/graph/graph.h"

namespace genesis {

using Axes = std::vector<int64_t>;

namespace ops {

// What most reductions have; the ops differ in their rules.
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
      .name = "any", .doc = "Whether any element over `axes` is not zero.", .precision = Precision::kExact};
  std::vector<TensorType> infer(Types in) const;
};

struct All : OverAxes {
  static constexpr OpInfo info{
      .name = "all", .doc = "Whether all elements over `axes` are not zero.", .precision = Precision::kExact};
  std::vector<TensorType> infer(Types in) const;
};

struct LogSumExp : OverAxes {
  static constexpr OpInfo info{
      .name = "logsumexp", .doc = "log(sum(exp(x))) over `axes`.", .precision = Precision::kF32};
  std::vector<TensorType> infer(Types in) const;
  double sum_length(Types in, Types out) const { return elements_each(in, out[0]); }
  void grad(GradientContext& g) const;
};

// Var and Std divide by max(0, n - correction).
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

// Which axes a list names: sorted, not negative, without repeats; an empty list names all. Throws Error.
std::vector<int> normalize_axes(const Axes& axes, int rank);

Value sum(Value x, Axes axes = {}, bool keep_dims = false);
Value mean(Value x, Axes axes = {}, bool keep_dims = false);  // of reals
Value prod(Value x, Axes axes = {}, bool keep_dims = false);
Value max(Value x, Axes axes = {},
          bool keep_dims = false);  // NaN wins; gradient shared evenly by ties (torch.amax)
Value min(Value x, Axes axes = {}, bool keep_dims = false);
Value argmax(Value x, int64_t axis = -1, bool keep_dims = false);  // i64; first of equals
Value argmin(Value x, int64_t axis = -1, bool keep_dims = false);
Value var(Value x, Axes axes = {}, int64_t correction = 1, bool keep_dims = false);
Value stddev(Value x, Axes axes = {}, int64_t correction = 1, bool keep_dims = false);
Value logsumexp(Value x, Axes axes = {}, bool keep_dims = false);
Value any(Value x, Axes axes = {}, bool keep_dims = false);
Value all(Value x, Axes axes = {}, bool keep_dims = false);
Value cumsum(Value x, int64_t axis, bool reverse = false);
// Undoes broadcasting: sums x over the axes along which `shape` expands to x's shape.
Value sum_to(Value x, const Shape& shape);

}  // namespace genesis
