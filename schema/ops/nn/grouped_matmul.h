// Matrix products of groups of rows, each group with a weight of its own: the products of a mixture of experts. Beside them the op
// that sorts the pairs of a token and an expert, and two that passes create for decoding, where the launches of many small kernels
// take longer than their work.
#pragma once

#include "schema/encoding/weight_format.h"
#include "schema/graph/graph.h"

namespace genesis {

// Says what a router makes of its logits before it chooses: softmax over all experts, the sigmoid of each, or nothing, with a
// softmax over the chosen ones afterwards.
enum class RouteScores : uint8_t { kSoftmax, kSigmoid, kSoftmaxOfChosen };
template <>
struct EnumNames<RouteScores> {
  static constexpr std::string_view names[] = {"softmax", "sigmoid", "softmax_of_chosen"};
};

// The gated activation between the products of an expert, of gate g and up u: silu(g) u, or the one of gpt-oss (OpenAI, 2025),
// h sigmoid(slope h) (v + 1) with h = min(g, limit) and v = u clamped to [-limit, limit].
enum class ExpertActivation : uint8_t { kSwiglu, kClampedSwiglu };
template <>
struct EnumNames<ExpertActivation> {
  static constexpr std::string_view names[] = {"swiglu", "clamped_swiglu"};
};

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

// Input: ids i64 [..., chosen], each in [0, groups). A pair is an element of ids, its row the axes before the last.
// Outputs, all i64: rows [pairs], the row of each pair in the order of their ids (pairs with one id keep their order); sorted
// [pairs], their ids; places [..., chosen], the place of each pair in this order; offsets [groups + 1], the first place of each id.
struct SortGroups {
  static constexpr OpInfo info{
      .name = "sort_groups",
      .doc =
          "The pairs of a row and one of its ids [..., chosen], sorted by id: the row and the id of each, "
          "where each pair went [..., chosen], and the first place of each id, [groups + 1]. Stable.",
      .precision = Precision::kExact};
  int64_t groups = 1;
  static void fields(auto& self, auto&& visit) { visit("groups", self.groups); }
  std::vector<TensorType> infer(Types in) const;
};

// Inputs: logits f32 [..., experts] [, bias f32 [experts], which counts for the choice only]. Outputs: factors f32 [..., k], then
// those of sort_groups for the chosen experts. Inference only: it has no gradient, unlike the ops that it replaces.
//
// The choice compares scores plus the bias as topk does: equal ones keep the order of the experts, and NaN is the greatest.
// With `groups` above 1 experts form groups of adjacent ones, and a row chooses only from the `chosen_groups` groups with the
// greatest sums of their `best_of_group` greatest scores plus bias; those of all other experts count as -inf. Source: DeepSeek-AI,
// "DeepSeek-V2" (best_of_group 1) and "DeepSeek-V3 Technical Report" (2), 2024.
struct Route {
  static constexpr OpInfo info{
      .name = "route",
      .doc =
          "The `k` experts of each row of logits [..., experts] with the greatest scores (plus a bias "
          "[experts] as second input), their factors [..., k], which are `normalized` scores times `factor`, "
          "and the pairs of a row and an expert in the order of sort_groups. With `groups` of experts, only "
          "the `chosen_groups` ones count whose `best_of_group` greatest scores have the greatest sums.",
      .inputs = {1, 2},
      .precision = Precision::kExact};
  static constexpr int64_t kMaxGroups = 32;  // kernels keep a bit of a word for each group
  int64_t k = 1;
  RouteScores scores = RouteScores::kSoftmax;
  bool normalized = false;  // factors are divided by their sum plus least_sum
  double least_sum = 0, factor = 1;
  int64_t groups = 1, chosen_groups = 1, best_of_group = 1;
  static void fields(auto& self, auto&& visit) {
    visit("k", self.k);
    visit("scores", self.scores);
    visit("normalized", self.normalized);
    visit("least_sum", self.least_sum);
    visit("factor", self.factor);
    visit("groups", self.groups);
    visit("chosen_groups", self.chosen_groups);
    visit("best_of_group", self.best_of_group);
  }
  std::vector<TensorType> infer(Types in) const;
  Cost cost(Types in, Types out) const;
};

// Inputs: x [..., k], gate and up [experts, n, k], down [experts, hidden, n], rows i64 [pairs], offsets i64 [experts + 1], places
// i64 [..., chosen], factors f32 [..., chosen] [, an addend [..., hidden]] [, biases of gate and up [experts, n] and of down
// [experts, hidden]] [, the scales of quantized gate and up] [, of down]. Output [..., hidden]. Pairs before the first and behind the
// last offset count as zeros. Inference only.
struct Experts {
  static constexpr OpInfo info{
      .name = "experts",
      .doc =
          "The sum over the chosen experts of each row of x, [..., hidden]: factor * down "
          "activation(gate x, up x), plus the addend if `has_addend`. Inputs x, gate, up [experts, n, k], "
          "down [experts, hidden, n], rows, offsets and places as of sort_groups, factors [, addend] "
          "[, biases of gate, up and down] [, scales of quantized weights]. `activation`: swiglu, or "
          "clamped_swiglu with `limit` and `slope`.",
      .inputs = {8, 15},
      .precision = Precision::kMatmul};
  WeightFormat format = WeightFormat::kPlain, down_format = WeightFormat::kPlain;
  bool has_addend = false, has_biases = false;
  ExpertActivation activation = ExpertActivation::kSwiglu;
  double limit = 0, slope = 1;  // clamped_swiglu alone reads them
  static void fields(auto& self, auto&& visit) {
    visit("format", self.format);
    visit("down_format", self.down_format);
    visit("has_addend", self.has_addend);
    visit("has_biases", self.has_biases);
    visit("activation", self.activation);
    visit("limit", self.limit);
    visit("slope", self.slope);
  }
  enum Input { kX, kGate, kUp, kDown, kRows, kOffsets, kPlaces, kFactors, kAddend };
  // The numbers of the inputs from gate's on; those of up and down follow.
  int biases() const { return has_addend ? kAddend + 1 : kAddend; }
  int scales() const { return biases() + (has_biases ? 3 : 0); }
  int down_scales() const { return scales() + (format == WeightFormat::kPlain ? 0 : 2); }
  int num_inputs() const { return down_scales() + (down_format == WeightFormat::kPlain ? 0 : 1); }
  std::vector<TensorType> infer(Types in) const;
  Cost cost(Types in, Types out) const;
  double sum_length(Types in, Types) const;
};

}  // namespace ops

// Returns x weights[g]^T for the rows of each group g: x [..., k], weights [groups, n, k] (or [groups, k, n] if not
// `transpose_weights`), offsets i64 [groups + 1] -> [..., n]. A sum has one order, whatever the offsets are.
Value grouped_matmul(Value x, Value weights, Value offsets, bool transpose_weights = true);

struct SortedGroups {
  Value rows, sorted, places, offsets;
};
// Sorts the pairs of a row and one of its ids i64 [..., chosen] by id. An id outside [0, groups) is an error of the run.
SortedGroups sort_groups(Value ids, int64_t groups);

}  // namespace genesis
