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

Value begins_text(Graph& graph, const Positions& positions, const Dim& seq) {
  if (positions.first) return eq(positions.ids, 0);
  if (!positions.start) return {};
  return logical_and(unsqueeze(eq(positions.start, 0), 1), eq(arange(graph, seq), 0));
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

namespace {

Shape rows_of_two(const CacheSize& size, const std::vector<int64_t>& shape) {
  std::vector<int64_t> all = {size.rows, 2};
  all.insert(all.end(), shape.begin(), shape.end());
  return Shape::of(all);
}

// Appends axes of size 1 to x [rows], for `rank` axes.
Value with_axes(Value x, int rank) {
  while (x.rank() < rank) x = unsqueeze(x, -1);
  return x;
}

}  // namespace

RecurrentCache::RecurrentCache(const Scope& scope, const CacheSize& size, const std::vector<int64_t>& shape)
    : states_(scope.cache("state_cache", rows_of_two(size, shape), promote(scope.dtype(), DType::f32),
                          CacheLayout{.kind = "recurrent", .rows_axis = 0, .positions_axis = -1})),
      tokens_(scope.cache("state_tokens", {size.rows, 2}, DType::i64,
                          CacheLayout{.kind = "recurrent", .rows_axis = 0, .positions_axis = -1})) {}

Value RecurrentCache::own(Graph& graph, const Parameter& cache, const Positions& positions) const {
  const Value whole = cache.in(graph);
  return positions.row ? dynamic_slice(whole, positions.row, 0, 1) : whole;
}

void RecurrentCache::update(const Parameter& cache, Value next, Value goes_on,
                            const Positions& positions) const {
  Graph& graph = *next.graph;
  next = where(with_axes(goes_on, next.rank()), next, own(graph, cache, positions));
  if (positions.row) next = dynamic_update_slice(cache.in(graph), next, positions.row, 0);
  graph.add_update(cache.index, next);
}

Value RecurrentCache::state(Graph& graph, const Positions& positions) const {
  const Value slots = own(graph, states_, positions);
  const Value odd = eq(remainder(positions.start, scalar_like(positions.start, 2)), 1);
  const Value first = squeeze(slice(slots, 1, 0, 1), 1), second = squeeze(slice(slots, 1, 1), 1);
  return where(with_axes(odd, first.rank()), second, first);
}

void RecurrentCache::keep(Value before, Value after, const Positions& positions, const Dim& seq) const {
  Graph& graph = *after.graph;
  const Value start = positions.start, two = scalar_like(start, 2);
  // The number of tokens behind which the slot holds the state.
  const Value slot = unsqueeze(remainder(start, two), 1),
              held = squeeze(gather(own(graph, tokens_, positions), 1, slot), 1);
  Value goes_on = logical_or(eq(held, start), eq(start, 0)), total = start;
  if (positions.count) {
    const Value is_read = positions.count > 0, fails = logical_and(is_read, logical_not(goes_on));
    // Index 1 does not exist.
    total =
        squeeze(gather(unsqueeze(start, 1), 1, unsqueeze(cast(fails, DType::i64), 1)), 1) + positions.count;
    goes_on = is_read;
  } else {
    total = start + dim_value(graph, seq);
  }
  const Value odd = eq(remainder(total, two), 1), last = total - 1, is_odd = with_axes(odd, after.rank());
  update(tokens_, stack({where(odd, last, total), where(odd, total, last)}, 1), goes_on, positions);
  update(states_, stack({where(is_odd, before, after), where(is_odd, after, before)}, 1), goes_on, positions);
}

LastVectors::LastVectors(const Scope& scope, const CacheSize& size, int64_t count, int64_t features)
    : count_(count), cache_(scope, size, {count, features}) {}

Value LastVectors::with_last(Value x, const Positions& positions) const {
  if (!positions.start) return pad(x, {0, count_, 0}, {0, 0, 0});
  Graph& graph = *x.graph;
  const Value held = cast(cache_.state(graph, positions), x.dtype());
  const Value begins = with_axes(eq(positions.start, 0), 3);
  const Value all = concat({where(begins, scalar_like(held, 0), held), x}, 1);
  // The last vectors after `read` tokens of x, of which there may be none.
  const Value read = positions.count ? positions.count : positions.start * 0 + dim_value(graph, x.dim(1));
  const auto behind = [&](Value tokens) {
    const Value places = unsqueeze(maximum(tokens, 0), 1) + arange(graph, count_);
    return gather(all, 1, expand(unsqueeze(places, 2), {x.dim(0), count_, x.dim(2)}));
  };
  const DType wide = promote(x.dtype(), DType::f32);
  cache_.keep(cast(behind(read - 1), wide), cast(behind(read), wide), positions, x.dim(1));
  return all;
}

}  // namespace genesis::models
