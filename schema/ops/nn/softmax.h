// Softmax and its relatives. Each gradient is its own op, which reads the result y and dy once. Rows whose maximum is -inf
// (nothing to choose from) or +inf, and rows with a NaN, become NaN, as in PyTorch.
#pragma once

#include "schema/graph/graph.h"

namespace genesis {

namespace ops {

struct Softmax {
  static constexpr OpInfo info{.name = "softmax",
                               .doc = "exp(x) / sum(exp(x)) along `axis`.",
                               .precision = Precision::kWide,
                               .in_place = kOverFirst};
  int64_t axis = -1;
  static void fields(auto& self, auto&& visit) { visit("axis", self.axis); }
  std::vector<TensorType> infer(Types in) const;
  double sum_length(Types in, Types) const { return row_length(in[0]); }
  void grad(GradientContext& g) const;
};

struct LogSoftmax {
  static constexpr OpInfo info{.name = "log_softmax",
                               .doc = "x - log(sum(exp(x))) along `axis`.",
                               .precision = Precision::kWide,
                               .in_place = kOverFirst};
  int64_t axis = -1;
  static void fields(auto& self, auto&& visit) { visit("axis", self.axis); }
  std::vector<TensorType> infer(Types in) const;
  double sum_length(Types in, Types) const { return row_length(in[0]); }
  void grad(GradientContext& g) const;
};

struct CausalSoftmax {
  static constexpr OpInfo info{.name = "causal_softmax",
                               .doc =
                                   "softmax(scale * x) over the keys j <= i + (keys - queries) of query i; "
                                   "0 for the other keys.",
                               .precision = Precision::kWide,
                               .in_place = kOverFirst};
  double scale = 1;
  static void fields(auto& self, auto&& visit) { visit("scale", self.scale); }
  std::vector<TensorType> infer(Types in) const;
  double sum_length(Types in, Types) const { return row_length(in[0]); }
  void grad(GradientContext& g) const;
};

// The gradient of softmax, and of causal_softmax along the last axis (y is 0 for the keys that a query does not see).
struct SoftmaxGrad {
  static constexpr OpInfo info{.name = "softmax_grad",
                               .doc =
                                   "scale * y * (dy - sum(y * dy)): the gradient of softmax from its result "
                                   "and dy.",
                               .inputs = {2, 2},
                               .precision = Precision::kWide,
                               .in_place = kOverEither};
  int64_t axis = -1;
  double scale = 1;
  bool causal = false;
  static void fields(auto& self, auto&& visit) {
    visit("axis", self.axis);
    visit("scale", self.scale);
    visit("causal", self.causal);
  }
  std::vector<TensorType> infer(Types in) const;
  double sum_length(Types in, Types) const { return row_length(in[0]); }
};

struct LogSoftmaxGrad {
  static constexpr OpInfo info{
      .name = "log_softmax_grad",
      .doc = "dy - exp(y) * sum(dy): the gradient of log_softmax from its result and dy.",
      .inputs = {2, 2},
      .precision = Precision::kWide,
      .in_place = kOverEither};
  int64_t axis = -1;
  static void fields(auto& self, auto&& visit) { visit("axis", self.axis); }
  std::vector<TensorType> infer(Types in) const;
  double sum_length(Types in, Types) const { return row_length(in[0]); }
};

}  // namespace ops

Value softmax(Value x, int64_t axis = -1);
Value log_softmax(Value x, int64_t axis = -1);
// Computes softmax(scale * x) of [..., queries, keys], where query i sees keys j <= i + (keys - queries). A query that sees
// nothing gets NaN, like a softmax over nothing.
Value causal_softmax(Value x, double scale = 1.0);

}  // namespace genesis
