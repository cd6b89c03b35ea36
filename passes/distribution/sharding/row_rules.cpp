#include "passes/distribution/sharding/row_rules.h"

#include <algorithm>

#include "passes/core/match.h"
#include "schema/ops/nn/norm.h"
#include "schema/ops/tensor/random.h"
#include "schema/ops/tensor/reduce.h"
#include "schema/ops/tensor/reshape.h"

namespace genesis::passes {
namespace {

// Returns the dimension of rows to shard: the first of the leading `dims` with more than one element, if the ranks divide its
// size. Otherwise returns -1: the rows are flattened into one dimension, of which a rank takes a contiguous range.
int cut_of(const Shape& shape, int dims, int64_t ranks) {
  int dim = 0;
  while (dim + 1 < dims && shape[dim] == Dim(1)) ++dim;
  return shape[dim].value() % ranks == 0 ? dim : -1;
}

// Returns the smallest number of leading dimensions that have `rows` elements together; empty if there is none.
std::optional<int> dims_of_rows(const Shape& shape, int64_t rows) {
  int64_t count = 1;
  for (int dims = 1; dims <= shape.rank(); ++dims) {
    count *= shape[dims - 1].value();
    if (count == rows) return dims;
  }
  return std::nullopt;
}

// Decides whether one node computes row by row, and with which attributes it computes a shard of the rows.
class Rows {
 public:
  Rows(const Graph& graph, const Node& node, const std::vector<int>& row_dims, const FactorShard& shard)
      : graph_(graph), node_(node), row_dims_(row_dims), shard_(shard) {
    for (size_t i = 0; i < row_dims.size(); ++i)
      if (row_dims[i] != kNoRows) first_ = first_.value_or(i);
    found_.attributes = node.attributes;
    found_.operands.resize(node.inputs.size());
  }

  std::optional<RowWise> find() {
    if (!first_) return std::nullopt;
    bool is_one = false;
    if (node_.op->info.elementwise) is_one = find_elementwise();
    if (is<ops::Dropout>(node_)) is_one = find_dropout();
    if (is<ops::RmsNorm, ops::LayerNorm, ops::RmsNormGrad, ops::LayerNormGrad>(node_)) is_one = find_norm();
    if (is<ops::Reshape>(node_)) is_one = find_reshape();
    if (is<ops::Sum>(node_)) is_one = find_sum();
    return is_one ? std::optional(std::move(found_)) : std::nullopt;
  }

 private:
  const Shape& operand(size_t i) const { return graph_.type(node_.inputs[i]).shape; }
  const Shape& result(size_t i) const { return graph_.type(node_.outputs[i]).shape; }
  int64_t rows() const { return count_rows(operand(*first_), row_dims_[*first_]); }

  // Requires that each operand has all rows, or is broadcast along them.
  bool find_elementwise() {
    const Shape& shape = result(0);
    const int dims = row_dims_[*first_] + shape.rank() - operand(*first_).rank();
    if (count_rows(shape, dims) != rows()) return false;
    for (size_t i = 0; i < node_.inputs.size(); ++i)
      if (!take_operand(i, shape, dims)) return false;
    found_.results.assign(node_.outputs.size(), dims);
    return true;
  }

  // Returns whether operand i can be sharded like the result, which has the shape `shape` with `dims` dimensions of rows.
  // Broadcast operands are aligned with the last dimensions of `shape`.
  bool take_operand(size_t i, const Shape& shape, int dims) {
    const Shape& own = operand(i);
    const int more = shape.rank() - own.rank(), own_dims = std::max(0, dims - more);
    const int cut = cut_of(shape, dims, shard_.ranks);
    const bool has_all = own_dims > 0 && count_rows(own, own_dims) == rows();
    found_.operands[i] = has_all ? own_dims : kNoRows;
    if (row_dims_[i] != kNoRows && (row_dims_[i] != own_dims || !has_all)) return false;
    if (cut < 0) return has_all ? more == 0 : own_dims == 0;
    return has_all || cut < more || own[cut - more] == Dim(1);
  }

  // The position of an element in the whole tensor decides whether it is dropped, so the attributes of a shard contain its
  // start.
  bool find_dropout() {
    auto op = from_attributes<ops::Dropout>(node_.attributes);
    const int64_t elements = result(0).numel().value() / shard_.ranks;
    if (*first_ != 1 || op.first != 0 || elements % 4 != 0) return false;
    op.first = shard_.place * elements;
    found_.attributes = to_attributes(op);
    found_.operands[1] = row_dims_[1];
    found_.results = {row_dims_[1]};
    return true;
  }

  // Shards operands and results with x's shape (x and its gradients) by rows. Smaller ones (weights and their gradients) have
  // only the normalized axes and are not sharded.
  bool find_norm() {
    const Shape& x = operand(0);
    const auto axes = static_cast<int>(std::get<int64_t>(*node_.attributes.find("num_axes")));
    const int dims = row_dims_[*first_];
    for (size_t i = 0; i < node_.inputs.size(); ++i) {
      found_.operands[i] = operand(i) == x ? dims : kNoRows;
      if (row_dims_[i] != kNoRows && row_dims_[i] != found_.operands[i]) return false;
    }
    for (size_t i = 0; i < node_.outputs.size(); ++i)
      found_.results.push_back(result(i) == x ? dims : kNoRows);
    return dims <= x.rank() - axes;
  }

  bool find_reshape() {
    const std::optional<int> dims = dims_of_rows(result(0), rows());
    if (!dims) return false;
    found_.attributes = to_attributes(ops::Reshape{shape_of_rows(result(0), *dims, shard_.ranks)});
    found_.operands = {row_dims_[0]};
    found_.results = {*dims};
    return true;
  }

  // A sum over all rows gives this rank's summand of the result; a sum within each row gives a result with rows.
  bool find_sum() {
    auto op = from_attributes<ops::Sum>(node_.attributes);
    const int dims = row_dims_[0], rank = operand(0).rank();
    if (!op.axes.empty()) {
      const std::vector<int> axes = normalize_axes(op.axes, rank);
      op.axes.assign(axes.begin(), axes.end());
    }
    const bool is_in_one_dim = cut_of(operand(0), dims, shard_.ranks) < 0;
    const auto is_row = [&](int64_t axis) { return axis < dims; };
    const auto of_rows = std::count_if(op.axes.begin(), op.axes.end(), is_row);
    found_.operands = {dims};
    if (of_rows == 0 && !op.axes.empty()) {
      if (is_in_one_dim)
        for (int64_t& axis : op.axes) axis -= dims - 1;
      found_.results = {dims};
    } else {
      if (of_rows != dims || std::ssize(op.axes) != dims || dims == rank || op.keep_dims) return false;
      if (is_in_one_dim) op.axes = {0};
      found_.results = {kNoRows};
    }
    found_.attributes = to_attributes(op);
    return true;
  }

  const Graph& graph_;
  const Node& node_;
  const std::vector<int>& row_dims_;
  const FactorShard shard_;
  std::optional<size_t> first_;  // the first operand with rows
  RowWise found_;
};

}  // namespace

int64_t count_rows(const Shape& shape, int dims) {
  int64_t rows = 1;
  for (int dim = 0; dim < dims; ++dim) rows *= shape[dim].value();
  return rows;
}

bool divides_rows(const Shape& shape, int dims, int64_t ranks) {
  return dims > 0 && shape.is_constant() && count_rows(shape, dims) % ranks == 0;
}

Shape shape_of_rows(const Shape& whole, int dims, int64_t ranks) {
  Shape shard = whole;
  if (const int cut = cut_of(whole, dims, ranks); cut >= 0) {
    shard[cut] = Dim(whole[cut].value() / ranks);
    return shard;
  }
  std::vector<Dim> sizes(whole.begin() + dims, whole.end());
  sizes.insert(sizes.begin(), Dim(count_rows(whole, dims) / ranks));
  return Shape(sizes);
}

std::optional<RowWise> row_wise(const Graph& graph, const Node& node, const std::vector<int>& row_dims,
                                const FactorShard& shard) {
  return Rows(graph, node, row_dims, shard).find();
}

}  // namespace genesis::passes
