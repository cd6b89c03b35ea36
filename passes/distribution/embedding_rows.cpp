#include "passes/distribution/embedding_rows.h"

#include <utility>

#include "schema/ops/collective/collective.h"
#include "schema/ops/elementwise/elementwise.h"

namespace genesis::passes {
namespace {

RowsOfTable match_any_rows(const Graph& graph, const Uses& uses, ValueId gradient) {
  if (const auto alone = match_sole<ops::EmbeddingGrad>(graph, uses, gradient)) return {alone, {}};
  const auto sum = match_sole<ops::Add>(graph, uses, gradient);
  if (!sum) return {};
  for (const auto& [rows, dense] : either_way(*sum.node))
    if (const auto matched = match_sole<ops::EmbeddingGrad>(graph, uses, rows);
        matched && graph.type(dense) == graph.type(gradient))
      return {matched, dense};
  return {};
}

// Returns the indices of all ranks, and their rows.
std::pair<Value, Value> gathered_rows(Rewriter& rewriter, const RowsOfTable& found, const std::string& axis,
                                      int64_t ranks, RankReduction reduction) {
  Value rows = rewriter.map(found.rows.input(1));
  if (reduction == RankReduction::kMean) rows = rows * (1.0 / static_cast<double>(ranks));
  const std::vector<Value> gathered =
      all_gather(std::vector{rewriter.map(found.rows.input(0)), rows}, axis, ranks);
  return {gathered[0], gathered[1]};
}

}  // namespace

RowsOfTable match_rows(const Graph& graph, const Uses& uses, ValueId gradient, int64_t ranks) {
  const RowsOfTable found = match_any_rows(graph, uses, gradient);
  if (!found) return {};
  const TensorType &rows = graph.type(found.rows.input(1)), &table = graph.type(gradient);
  const bool is_less =
      rows.shape.is_constant() && table.shape.is_constant() && 2 * ranks * rows.bytes() <= table.bytes();
  return is_less ? found : RowsOfTable{};
}

Value table_of_all_ranks(Rewriter& rewriter, const RowsOfTable& found, const std::string& axis, int64_t ranks,
                         RankReduction reduction) {
  const auto [indices, rows] = gathered_rows(rewriter, found, axis, ranks, reduction);
  const Node& table = *found.rows.node;
  return emit_node(*table.op, table.attributes, {indices, rows})[0];
}

Value table_shard_of_all_ranks(Rewriter& rewriter, const RowsOfTable& found, const std::string& axis,
                               int64_t ranks, int64_t place, RankReduction reduction) {
  const auto [indices, rows] = gathered_rows(rewriter, found, axis, ranks, reduction);
  ops::EmbeddingGrad table = found.rows.attributes;
  const OwnIndices whole = table.part.of(table.rows[0].value());
  const int64_t count = whole.count / ranks;
  table.rows[0] = Dim(count);
  table.part = {whole.first + place * count, whole.all};
  return emit(table, {indices, rows});
}

}  // namespace genesis::passes
