#include "schema/graph/caches.h"

#include <algorithm>
#include <limits>

#include "schema/core/checked_size.h"

namespace genesis {

std::optional<CacheLayout> cache_layout(const State& state) {
  if (state.cache) return state.cache;
  if (state.role != StateRole::kCache || state.type.shape.rank() != 4) return std::nullopt;
  return CacheLayout{.kind = "", .rows_axis = 0, .positions_axis = 1};
}

void check_cache_layout(const CacheLayout& layout, StateRole role, const TensorType& type) {
  const auto& [kind, rows, positions] = layout;
  if (role != StateRole::kCache)
    fail("it declares a cache of '{}', but its role is {}: expected cache", kind, name_of(role));
  const int rank = type.shape.rank();
  if (rows < 0 || rows >= rank) fail("its axis of rows is {}, but its rank is {}", rows, rank);
  if (positions < -1 || positions >= rank)
    fail("its axis of positions is {}, but its rank is {} (-1: there is none)", positions, rank);
  if (rows == positions) fail("its rows and its positions are both axis {}", rows);
}

std::optional<CacheSize> cache_size(const Model& model) {
  std::optional<CacheSize> size;
  constexpr int64_t kAny = std::numeric_limits<int64_t>::max();
  for (const State& state : model.states()) {
    const auto layout = cache_layout(state);
    if (!layout) continue;
    if (!size) size = {kAny, kAny};
    const Shape& shape = state.type.shape;
    size->rows = std::min(size->rows, shape[layout->rows_axis].value());
    if (layout->positions_axis >= 0)
      size->positions = std::min(size->positions, shape[layout->positions_axis].value());
  }
  return size;
}

TensorType cache_type(const State& state, const CacheSize& size) {
  TensorType type = state.type;
  if (const auto layout = cache_layout(state)) {
    type.shape[layout->rows_axis] = size.rows;
    if (layout->positions_axis >= 0) type.shape[layout->positions_axis] = size.positions;
  }
  return type;
}

int64_t cache_bytes(const Model& model, const CacheSize& size) {
  CheckedSize bytes = 0;
  for (const State& state : model.states())
    if (cache_layout(state)) bytes += cache_type(state, size).bytes();
  return bytes.value();
}

}  // namespace genesis
