#include "passes/fusion/passes.h"

#include <map>

#include "passes/core/match.h"
#include "passes/core/rewriter.h"
#include "schema/ops/create.h"
#include "schema/ops/elementwise/elementwise.h"
#include "schema/ops/tensor/dynamic_slice.h"
#include "schema/ops/tensor/reshape.h"

namespace genesis::passes {
namespace {

// A row of a cache that is cut out, gets new tokens, and is put back.
struct RowUpdate {
  Matched<ops::DynamicSlice> own;           // cuts the row out of the cache
  Matched<ops::DynamicUpdateSlice> update;  // writes the tokens into it
  const Node* whole = nullptr;              // puts it back
};

bool is_number(const TensorType& type) { return type.dtype == DType::i64 && type.shape.numel() == Dim(1); }

std::optional<RowUpdate> find_update(const Graph& graph, const Uses& uses, const Node& node) {
  RowUpdate found;
  found.update = match<ops::DynamicUpdateSlice>(node);
  if (!found.update || found.update->axis != 1) return std::nullopt;
  found.own = match_sole<ops::DynamicSlice>(graph, uses, found.update.input(0));
  if (!found.own || found.own->axis != 0 || !(found.own->length[0] == Dim(1))) return std::nullopt;
  const ValueId cache = found.own.input(0), row = found.own.input(1);
  const Shape& shape = graph.type(cache).shape;
  const bool is_cache =
      graph.value(cache).kind == ValueKind::kState && shape.is_constant() && shape.rank() >= 2;
  if (!is_cache || !is_number(graph.type(row))) return std::nullopt;
  for (size_t i = 2; i < found.update.num_inputs(); ++i)
    if (!is_number(graph.type(found.update.input(i)))) return std::nullopt;
  for (const NodeId id : uses.readers(node.outputs[0])) {
    const Node& reader = graph.node(id);
    const auto back = match<ops::DynamicUpdateSlice>(reader);
    if (back && back->axis == 0 && back.num_inputs() == 3 && back.input(0) == cache &&
        back.input(1) == node.outputs[0] && back.input(2) == row)
      found.whole = &reader;
  }
  return found.whole ? std::optional(found) : std::nullopt;
}

// Returns the place of the first token in the cache as one sequence of rows. Tokens that do not fit into the row get a place where they
// do not fit either: the update with a length is an error then.
Value place_of(Value row, Value start, Value length, int64_t rows, int64_t positions, const Dim& tokens) {
  const Value own = minimum(maximum(row, 0), rows - 1) * positions;
  if (!length) {
    const Value last = dim_value(*row.graph, Dim(positions)) - dim_value(*row.graph, tokens);
    return own + minimum(maximum(start, 0), last);
  }
  const Value fits = logical_and(start >= 0, start + length <= positions);
  return where(fits, own + start, full_like(start, rows * positions));
}

// The updates of whole caches that have been made, by the values that they replace when their nodes come.
using Wholes = std::map<ValueId, Value>;

Replacement update_in_place(Rewriter& rewriter, const Uses& uses, Wholes& wholes, const Node& node) {
  const Graph& graph = rewriter.old();
  if (node.outputs.empty()) return std::nullopt;
  if (const auto made = wholes.find(node.outputs[0]); made != wholes.end()) return {{made->second}};
  const auto found = find_update(graph, uses, node);
  if (!found) return std::nullopt;
  rewriter.from_nodes({found->own.node, &node, found->whole});
  const Value cache = rewriter.map(found->own.input(0)), tokens = rewriter.map(found->update.input(1));
  const Value row = reshape(rewriter.map(found->own.input(1)), {}),
              start = reshape(rewriter.map(found->update.input(2)), {});
  const Value length =
      found->update.num_inputs() > 3 ? reshape(rewriter.map(found->update.input(3)), {}) : Value();
  const Shape shape = cache.shape();
  const int64_t rows = shape[0].value(), positions = shape[1].value();
  Shape flat = shape;
  flat[0] = 1;
  flat[1] = rows * positions;
  const Value place = place_of(row, start, length, rows, positions, tokens.dim(1));
  const Value whole = reshape(dynamic_update_slice(reshape(cache, flat), tokens, place, 1, length), shape);
  wholes.emplace(found->whole->outputs[0], whole);
  return {{dynamic_slice(whole, row, 0, 1)}};
}

}  // namespace

// A file for every device keeps the rows of its caches open (passes/core/cache_size.h), and here they become numbers.
Graph update_rows(const Graph& graph, const PassContext& context) {
  if (!context.target) return graph.share();
  const Uses uses(graph);
  Wholes wholes;
  return rewrite(graph, [&](Rewriter& rewriter, const Node& node) {
    return update_in_place(rewriter, uses, wholes, node);
  });
}

}  // namespace genesis::passes
