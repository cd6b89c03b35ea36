// The number of tokens that a model of any kind knows.
#pragma once

#include <cstdint>
#include <optional>

#include "schema/graph/model.h"

namespace genesis::text {

// Returns the size of the logits of a language model's `forward`, or the vocab_size of an encoder (models/encoder.h), whose `forward`
// may give other logits. Empty for a model that reads no tokens. Throws Error if `forward` is not that of a language model.
std::optional<int64_t> known_tokens(const Model& model);

}  // namespace genesis::text
