// Gives a language model a KV cache in 8 bits: keys and values are stored as i8, each head of each token with a scale of its own,
// in about half the bytes of bf16. TextOptions::cache_dtype and genesis-opt --cache-dtype use it.
#pragma once

#include <memory>

#include "schema/graph/model.h"

namespace genesis::passes {

// Returns true if the model has a cache that with_quantized_cache() made.
bool has_quantized_cache(const Model& model);

// Returns the model with every cache of numbers [rows, positions, heads, head_size] in two states: one of the same name, i8, and
// "<name>.scales", f32 [rows, positions, heads, 1]. Weights, metadata and files are shared with `model`. Where an entry point appends
// keys or values, they are quantized; attention reads the quants (schema/ops/nn/quantized_cache.h), and every other node gets
// numbers of all positions. States that keep a fixed amount per text stay as they are.
//
// Throws Error if the model declares no such cache, or keeps it in 8 bits already.
std::unique_ptr<Model> with_quantized_cache(const Model& model);

// Returns the model with entry points that attend to a whole text without a cache, such as `loss`, changed to read keys and values
// as a cache in 8 bits gives them back. So evaluation shows what such a cache costs. Entry points with updates stay as they are.
std::unique_ptr<Model> with_rounded_keys(const Model& model);

}  // namespace genesis::passes
