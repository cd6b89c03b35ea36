// Gives the model of a session the cache that its options or a longer text ask for, and checks that a cache fits.
#pragma once

#include <memory>
#include <string>

#include "executor/session_options.h"
#include "schema/graph/model.h"

namespace genesis {

// Returns `model` with the cache of SessionOptions::cache; `model` itself if it has this cache or none is asked for.
std::shared_ptr<const Model> with_cache(std::shared_ptr<const Model> model, const SessionOptions& options);

// Returns the model with as many rows as before and with this many positions. Throws the errors of Session::grow_cache().
std::shared_ptr<const Model> with_longer_cache(const Model& model, int64_t positions, const Mesh& mesh);

// Throws Error if the device is the CPU and the model's cache is larger than the host's free memory. A session on the CPU does
// not check this, because a cache takes memory only as it fills; on other devices it does. For caches whose size a user chose.
void check_cache_fits(const Model& model, const std::string& device);

// Returns the tables of `tables`, which begin with the states of another size of `model`, with the caches of `model`.
std::unique_ptr<Model> with_caches_of(const Model& model, const Model& tables);

// Throws Error unless `smaller` has the states of `model`, of which caches may be smaller (Session::add_entries()).
void check_beginnings(const Model& model, const Model& smaller);

}  // namespace genesis
