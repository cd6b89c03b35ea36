// Reads the declarations of a model's caches (schema/graph/cache_layout.h): how large they are, and how large they would be.
#pragma once

#include <optional>

#include "schema/graph/model.h"

namespace genesis {

// Returns what the state declares. Files written before declarations existed have caches [rows, positions, heads, head_size]
// without one, so that every other state of the role kCache and of rank 4 has this layout. Empty for all other states.
std::optional<CacheLayout> cache_layout(const State& state);

// Throws Error if a state of this role and type cannot have the layout.
void check_cache_layout(const CacheLayout& layout, StateRole role, const TensorType& type);

// Returns the size of the model's cache: the least rows and positions of its states. Positions are the largest int64_t if no
// state has an axis of positions. Empty if no state has a layout.
std::optional<CacheSize> cache_size(const Model& model);

// Returns the type that the state has in a cache of this size; its own type if it has no layout.
TensorType cache_type(const State& state, const CacheSize& size);

// Returns the bytes of all states with a layout in a cache of this size, without building it. Throws Error if they exceed 64
// bits.
int64_t cache_bytes(const Model& model, const CacheSize& size);

}  // namespace genesis
