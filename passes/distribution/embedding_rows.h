// Exchanges the rows of an embedding table's gradient, with their indices, instead of the table that they are summed into. If
// the table is also the weight of the head, the head's gradient is exchanged separately, as soon as it is computed.
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
  std::optional<ValueId> dense;  // the other summand of the gradient, if there is one
  explicit operator bool() const { return bool(rows); }
};

// Matches a gradient with a single reader if the rows of all `ranks` take at most half the bytes of the table; otherwise
// returns nothing.
RowsOfTable match_rows(const Graph& graph, const Uses& uses, ValueId gradient, int64_t ranks);

// Returns the table with the rows of all ranks along `axis`, summed in the order of the ranks; for a mean, rows are first
// divided by `ranks`.
Value table_of_all_ranks(Rewriter& rewriter, const RowsOfTable& found, const std::string& axis, int64_t ranks,
                         RankReduction reduction);

// Returns the rows of that table that the rank `place` keeps: [rows / ranks, width]. The ranks must divide the number of rows.
Value table_shard_of_all_ranks(Rewriter& rewriter, const RowsOfTable& found, const std::string& axis,
                               int64_t ranks, int64_t place, RankReduction reduction);

}  // namespace genesis::passes
