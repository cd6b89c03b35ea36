#include "models/token_caches.h"

#include "builder/genesis.h"

namespace genesis::models {

Value append_tokens(const Parameter& cache, Value update, const Positions& positions) {
  Graph& graph = *update.graph;
  const Value whole = cache.in(graph), row = positions.row;
  const Value own = row ? dynamic_slice(whole, row, 0, 1) : whole;
  const Value appended = dynamic_update_slice(own, update, positions.start, 1, positions.count);
  graph.add_update(cache.index, row ? dynamic_update_slice(whole, appended, row, 0) : appended);
  return appended;
}

VectorCache::VectorCache(const Scope& scope, const CacheSize& size, int64_t features)
    : vectors_(scope.cache("inputs_cache", {size.rows, size.positions, features}, scope.dtype(),
                           CacheLayout{.kind = "inputs", .rows_axis = 0, .positions_axis = 1})) {}

Value VectorCache::with_last(Value x, int64_t count, const Positions& positions) const {
  if (!positions.start) return pad(x, {0, count, 0}, {0, 0, 0});
  Graph& graph = *x.graph;
  const Value whole = vectors_.in(graph),
              own = positions.row ? dynamic_slice(whole, positions.row, 0, 1) : whole;
  const Value places = unsqueeze(positions.start, 1) + (arange(graph, count) - count);  // [batch, count]
  const Value index = expand(unsqueeze(maximum(places, 0), 2), {x.dim(0), count, x.dim(2)});
  const Value last = where(unsqueeze(places >= 0, 2), gather(own, 1, index), scalar_like(x, 0));
  append_tokens(vectors_, x, positions);
  return concat({last, x}, 1);
}

}  // namespace genesis::models
