// Gradients of an embedding's table, of which the rows are exchanged, with their indices, instead of the table they are
// summed into. What is added to a table that is also the head's weight is exchanged by itself, as soon as it is there. Used by
// distribute and shard_optimizer.
#pragma once

#include <optional>
#include <string>

#include "passes/core/match.h"
#include "passes/core/rewriter.h"
#include "schema/ops/tensor/index.h"
#include "schema/ranks/rank_reduction.h"

namespace genesis::passes {

struct RowsOfTable {
  Matched<ops::EmbeddingGrad> rows;
  std::optional<ValueId> dense;  // what is added to the table
  explicit operator bool() const { return bool(rows); }
};

// Of a gradient that nobody else reads, where the rows of all `ranks` are less than half of the table; or nothing.
RowsOfTable match_rows(const Graph& graph, const Uses& uses, ValueId gradient, int64_t ranks);

// The table of the rows of all ranks along `axis`, summed in the order of the ranks; of a mean each a part.
Value table_of_all_ranks(Rewriter& rewriter, const RowsOfTable& found, const std::string& axis, int64_t ranks,
                         RankReduction reduction);

// Of that table the rows that rank `place` keeps, where the ranks divide their number: [rows / ranks, width].
Value table_part_of_all_ranks(Rewriter& rewriter, const RowsOfTable& found, const std::string& axis,
                              int64_t ranks, int64_t place, RankReduction reduction);

}  // namespace genesis::passes
