// Nodes that compute each row by itself, such as norms and sums of the residual stream, and how such a node computes a part of the
// rows. The rows of a value are its leading dimensions taken together, which count tokens. A rank's part is one run of neighbouring
// rows: it lies in one piece of memory, and stays the same rows when the value is reshaped.
#pragma once

#include <optional>
#include <vector>

#include "passes/distribution/sharding/factors.h"
#include "schema/graph/graph.h"

namespace genesis::passes {

// Instead of a number of dimensions: the value has no rows, or is not cut.
inline constexpr int kNoRows = 0;

// How many rows a shape has whose first `dims` dimensions are rows.
int64_t count_rows(const Shape& shape, int dims);

// Whether the number of rows is known and can be divided by `ranks`.
bool divides_rows(const Shape& shape, int dims, int64_t ranks);

// The shape of a rank's part. Where `ranks` divides the first dimension that is not 1, that one is cut: [1, time / ranks, width].
// Otherwise all rows are in one dimension: [rows / ranks, width].
Shape shape_of_rows(const Shape& whole, int dims, int64_t ranks);

// How a node computes a rank's part of the rows.
struct RowWise {
  Attributes attributes;
  // By operand: how many leading dimensions are rows, of which the node reads a part; kNoRows: it reads the whole operand.
  std::vector<int> operands;
  std::vector<int> results;  // by result, likewise; kNoRows: the result is a sum over the rows
};

// `row_dims`: by operand, how many leading dimensions are rows of which ranks have parts; kNoRows: each rank has the whole operand.
// Empty where the node does not compute row by row with such operands.
std::optional<RowWise> row_wise(const Graph& graph, const Node& node, const std::vector<int>& row_dims,
                                const FactorPart& part);

}  // namespace genesis::passes
