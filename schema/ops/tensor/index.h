// Reading and writing by index. Indices are i32 or i64; if one is out of range, the run gives an error that names the node
// (gather, scatter, index_select, embedding, class targets).
#pragma once

#include "schema/graph/graph.h"
#include "schema/ops/index_range.h"

namespace genesis {
namespace ops {

struct Along {
  int64_t axis = 0;
  static void fields(auto& self, auto&& visit) { visit("axis", self.axis); }
};

struct Gather : Along {
  static constexpr OpInfo info{.name = "gather",
                               .doc = "x read at `index` along `axis` (torch.gather).",
                               .inputs = {2, 2},
                               .precision = Precision::kFollow};
  std::vector<TensorType> infer(Types in) const;
  Cost cost(Types, Types out) const { return cost_of_copy(out[0]); }
  void grad(GradientContext& g) const;
};

struct Scatter : Along {
  static constexpr OpInfo info{.name = "scatter",
                               .doc = "x with source written at `index` along `axis`; the last write wins.",
                               .inputs = {3, 3},
                               .precision = Precision::kFollow,
                               .in_place = kOverFirst};
  std::vector<TensorType> infer(Types in) const;
  void grad(GradientContext& g) const;
};

struct ScatterAdd : Along {
  static constexpr OpInfo info{.name = "scatter_add",
                               .doc = "x with source added at `index` along `axis`, in index order.",
                               .inputs = {3, 3},
                               .precision = Precision::kFollow,
                               .in_place = kOverFirst};
  std::vector<TensorType> infer(Types in) const;
  double sum_length(Types in, Types) const { return row_count(in[0]) + 1; }
  void grad(GradientContext& g) const;
};

struct IndexSelect : Along {
  static constexpr OpInfo info{.name = "index_select",
                               .doc = "Slices of x along `axis`, selected by the 1-d index.",
                               .inputs = {2, 2},
                               .precision = Precision::kFollow};
  std::vector<TensorType> infer(Types in) const;
  Cost cost(Types, Types out) const { return cost_of_copy(out[0]); }
  void grad(GradientContext& g) const;
};

// x may be one rank's range of a shared tensor (`part`); indices then count in the whole tensor.
struct IndexAdd : Along {
  static constexpr OpInfo info{
      .name = "index_add",
      .doc =
          "x with slices of source added along `axis` at the 1-d index, in its order. If x has only the "
          "indices from `first_index` on, of `all_indices`, slices at other indices are skipped.",
      .inputs = {3, 3},
      .precision = Precision::kFollow,
      .in_place = kOverFirst};
  IndexRange part = {};
  static void fields(auto& self, auto&& visit) {
    Along::fields(self, visit);
    IndexRange::fields(self.part, visit);
  }
  std::vector<TensorType> infer(Types in) const;
  double sum_length(Types in, Types) const { return row_count(in[0]) + 1; }
  void grad(GradientContext& g) const;
};

// The weight may be one rank's range of a shared table (`part`): indices and padding_idx then count in the whole table, and the
// results of all ranks add up to its rows.
struct Embedding {
  static constexpr OpInfo info{
      .name = "embedding",
      .doc =
          "Rows of weight, selected by the indices; row `padding_idx` gets no gradient. If the weight has "
          "only the rows from `first_index` on, of `all_indices`, other indices give zeros.",
      .inputs = {2, 2},
      .precision = Precision::kFollow};
  int64_t padding_idx = -1;
  IndexRange part = {};
  static void fields(auto& self, auto&& visit) {
    visit("padding_idx", self.padding_idx);
    IndexRange::fields(self.part, visit);
  }
  std::vector<TensorType> infer(Types in) const;
  Cost cost(Types, Types out) const { return cost_of_copy(out[0]); }
  void grad(GradientContext& g) const;
};

// Inputs: indices, dy. Rows are summed in the order of the indices.
struct EmbeddingGrad {
  static constexpr OpInfo info{.name = "embedding_grad",
                               .doc =
                                   "The gradient of embedding: dy summed into zeros of `rows[0]` rows, the "
                                   "rows from `first_index` on, of `all_indices`.",
                               .inputs = {2, 2},
                               .precision = Precision::kFollow};
  Shape rows{0};
  int64_t padding_idx = -1;
  IndexRange part = {};
  static void fields(auto& self, auto&& visit) {
    visit("rows", self.rows);
    visit("padding_idx", self.padding_idx);
    IndexRange::fields(self.part, visit);
  }
  std::vector<TensorType> infer(Types in) const;
  double sum_length(Types in, Types) const { return row_count(in[0]) + 1; }
  void grad(GradientContext& g) const;
};

}  // namespace ops

// index may be smaller than x along the other axes, and source larger than index, as in torch.
Value gather(Value x, int64_t axis, Value index);
Value scatter(Value x, int64_t axis, Value index, Value source);      // the last write in index order wins
Value scatter_add(Value x, int64_t axis, Value index, Value source);  // summed in index order
Value index_select(Value x, int64_t axis, Value index);               // index is 1-d
Value index_add(Value x, int64_t axis, Value index, Value source);    // summed in index order
// Returns rows of weight [num_embeddings, dim].
Value embedding(Value indices, Value weight, int64_t padding_idx = -1);

}  // namespace genesis
