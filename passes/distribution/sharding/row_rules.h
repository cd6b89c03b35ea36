// Nodes that compute each row by itself, such as norms and sums of the residual stream: what one does with a part of the
// rows. Rows are all elements of a value's leading dimensions, which are tokens; a rank's part of them is one run, so it lies
// in one piece and rows of one shape are those of another.
#pragma once

#include <optional>
#include <vector>

#include "passes/distribution/sharding/factors.h"
#include "schema/graph/graph.h"

namespace genesis::passes {

// Of a value without rows.
inline constexpr int kNoRows = 0;

// The rows of a shape of which the first `dims` dimensions are rows.
int64_t count_rows(const Shape& shape, int dims);

// Whether ranks divide the rows, which has to be known.
bool divides_rows(const Shape& shape, int dims, int64_t ranks);

// What a part of the rows has as its shape: with a part of the first dimension that is not one where the ranks divide it,
// [1, time / ranks, width]; else with all rows in one dimension, [rows / ranks, width].
Shape shape_of_rows(const Shape& whole, int dims, int64_t ranks);

// How a node computes its part.
struct RowWise {
  Attributes attributes;
  // By operand, the leading dimensions that are rows, of which it takes a part; kNoRows: it is read whole.
  std::vector<int> operands;
  std::vector<int> results;  // likewise; kNoRows: a sum over the rows
};

// `row_dims`: by operand, of which a part is there; kNoRows: it is whole. Nothing where the node does not compute row by row,
// or not of these operands.
std::optional<RowWise> row_wise(const Graph& graph, const Node& node, const std::vector<int>& row_dims,
                                const FactorPart& part);

}  // namespace genesis::passes
