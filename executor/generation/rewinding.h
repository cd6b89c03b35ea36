// Says whether a text in a model's cache can be rewound.
#pragma once

#include <algorithm>

#include "schema/graph/caches.h"

namespace genesis::generation {

// Returns true if a text in the model's cache can go on from any of its tokens. A recurrent state, which has no axis of positions,
// can go on from its last token alone: an engine reads a text again that is to go on.
inline bool can_rewind(const Model& model) {
  return std::ranges::none_of(model.states(), [](const State& state) {
    const std::optional<CacheLayout> layout = cache_layout(state);
    return layout && layout->positions_axis < 0;
  });
}

}  // namespace genesis::generation
