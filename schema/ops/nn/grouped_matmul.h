// Matrix products of groups of rows, each group with a weight of its own: the products of a mixture of experts.
#pragma once

#include "schema/encoding/weight_format.h"
#include "schema/graph/graph.h"

namespace genesis {
namespace ops {

// Inputs: x [..., k], weights, [their scales], offsets i64 [groups + 1]. The rows of x, over all of its leading axes, are sorted
// by group: those of group g are [offsets[g], offsets[g + 1]). Offsets are data and never decrease; rows before the first and behind
// the last one belong to no group, and give zeros. A run with offsets that decrease, or exceed the rows, gives an error.
//
//   transpose_weights   true: weights are [groups, n, k], as linear has them; false: [groups, k, n]
//   weight_format       q8, q4 or q4m: the weights are quants, followed by their scales (see Linear). No gradient with respect to
//                       the weights; needs transpose_weights.
struct GroupedMatmul {
  static constexpr OpInfo info{
      .name = "grouped_matmul",
      .doc =
          "x weights[g]^T for the rows of each group g, which are the rows [offsets[g], offsets[g + 1]) of x "
          "[..., k]. Weights are [groups, n, k], or [groups, k, n] without `transpose_weights`. "
          "`weight_format` q8, q4 or q4m: quants, then their scales, instead of the weights (see "
          "dequantize). Rows of no group give zeros.",
      .inputs = {3, 4},
      .precision = Precision::kMatmul};
  bool transpose_weights = true;
  WeightFormat weight_format = WeightFormat::kPlain;
  static void fields(auto& self, auto&& visit) {
    visit("transpose_weights", self.transpose_weights);
    visit("weight_format", self.weight_format);
  }
  bool is_quantized() const { return weight_format != WeightFormat::kPlain; }
  std::vector<TensorType> infer(Types in) const;
  Cost cost(Types in, Types out) const;
  double sum_length(Types in, Types) const;
  void grad(GradientContext& g) const;
};

// Inputs: a [..., n], b [..., k], offsets. Result [groups, n, k]: for each group the sum over its rows of a^T b, zeros for a group
// without rows. It is the gradient of grouped_matmul for its weights.
struct GroupedMatmulGrad : NoAttributes {
  static constexpr OpInfo info{
      .name = "grouped_matmul_grad",
      .doc =
          "The gradient of grouped_matmul for its weights: a^T b over the rows "
          "[offsets[g], offsets[g + 1]) of a [..., n] and b [..., k], as [groups, n, k].",
      .inputs = {3, 3},
      .precision = Precision::kMatmul};
  std::vector<TensorType> infer(Types in) const;
  Cost cost(Types in, Types out) const;
  double sum_length(Types in, Types) const { return row_count(in[0]); }
  void grad(GradientContext& g) const;
};

}  // namespace ops

// Returns x weights[g]^T for the rows of each group g: x [..., k], weights [groups, n, k] (or [groups, k, n] if not
// `transpose_weights`), offsets i64 [groups + 1] -> [..., n]. A sum has one order, whatever the offsets are.
Value grouped_matmul(Value x, Value weights, Value offsets, bool transpose_weights = true);

}  // namespace genesis
