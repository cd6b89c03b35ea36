// Gives a language model a cache of another size: any number of texts and of tokens, for any model whose states declare what they
// cache (schema/graph/cache_layout.h). Sessions, tools and models::with_cache() use it.
#pragma once

#include <memory>

#include "schema/graph/model.h"

namespace genesis::passes {

// Returns the model with a cache of this size. Weights, metadata and files are shared with `model`. Entry points that read the
// cache are written anew and keep their names and nodes; the others are copied.
//
// An entry point takes as many rows as the cache if it uses a cache as a whole: then axis 0 of its inputs gets `rows`. One that
// reads and writes single rows, by dynamic slices along the axis of rows, keeps its inputs.
//
// Throws Error if the model declares no caches, if a size is not positive, or if an entry point cannot be written anew: one that
// was written for a single row takes its position as a scalar, and there is none for several.
std::unique_ptr<Model> with_cache_size(const Model& model, const CacheSize& size);

}  // namespace genesis::passes
