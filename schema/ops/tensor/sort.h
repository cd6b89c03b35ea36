// Ops that order elements along an axis. All are stable: equal elements keep their order. NaN counts as the greatest.
#pragma once

#include "schema/graph/graph.h"

namespace genesis {
namespace ops {

struct Sort {
  static constexpr OpInfo info{
      .name = "sort",
      .doc = "x sorted along `axis`, and the index that each element had. Stable; NaN is greatest.",
      .precision = Precision::kFollow};
  int64_t axis = -1;
  bool descending = false;
  static void fields(auto& self, auto&& visit) {
    visit("axis", self.axis);
    visit("descending", self.descending);
  }
  std::vector<TensorType> infer(Types in) const;
  void grad(GradientContext& g) const;
};

struct TopK {
  static constexpr OpInfo info{
      .name = "topk",
      .doc = "The `k` greatest (or least) elements along `axis`, in order, and their indices.",
      .precision = Precision::kFollow};
  int64_t k = 1, axis = -1;
  bool largest = true;
  static void fields(auto& self, auto&& visit) {
    visit("k", self.k);
    visit("axis", self.axis);
    visit("largest", self.largest);
  }
  std::vector<TensorType> infer(Types in) const;
  void grad(GradientContext& g) const;
};

}  // namespace ops

struct ValuesAndIndices {
  Value values, indices;  // indices i64
};
ValuesAndIndices topk(Value x, int64_t k, int64_t axis = -1, bool largest = true);
ValuesAndIndices sort(Value x, int64_t axis = -1, bool descending = false);
Value argsort(Value x, int64_t axis = -1, bool descending = false);

}  // namespace genesis
