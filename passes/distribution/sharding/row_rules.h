// Finds nodes that compute each row by itself, such as norms and sums of the residual stream, and how such a node computes a
// shard of the rows. The rows of a value are its leading dimensions taken together; they count tokens. A rank's shard is a
// range of consecutive rows: it is contiguous in memory and contains the same rows after a reshape.
#pragma once

#include <optional>
#include <vector>

#include "passes/distribution/sharding/factors.h"
#include "schema/graph/graph.h"

namespace genesis::passes {

// Stands for a value without rows, or one that is not sharded, instead of a number of dimensions.
inline constexpr int kNoRows = 0;

// Returns the number of rows of a shape whose first `dims` dimensions are rows.
int64_t count_rows(const Shape& shape, int dims);

// Returns whether the number of rows is known and divisible by `ranks`.
bool divides_rows(const Shape& shape, int dims, int64_t ranks);

// Returns the shape of a rank's shard: [1, time / ranks, width] if `ranks` divides the first dimension that is not 1, otherwise
// [rows / ranks, width] with all rows in one dimension.
Shape shape_of_rows(const Shape& whole, int dims, int64_t ranks);

// Describes how a node computes a rank's shard of the rows.
struct RowWise {
  Attributes attributes;
  // By operand: the number of leading dimensions that are rows, of which the node reads a shard; kNoRows: it reads the whole
  // operand.
  std::vector<int> operands;
  std::vector<int> results;  // by result, likewise; kNoRows: the result is a sum over the rows
};

// `row_dims` tells, by operand, how many leading dimensions are sharded rows; kNoRows: each rank has the whole operand. Returns
// nothing if the node does not compute row by row with these operands.
std::optional<RowWise> row_wise(const Graph& graph, const Node& node, const std::vector<int>& row_dims,
                                const FactorShard& shard);

}  // namespace genesis::passes
