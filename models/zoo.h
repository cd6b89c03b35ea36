// The models of the zoo, made by name from settings given as text, as `genesis-build NAME --set key=value` does.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "schema/graph/model.h"

namespace genesis::models {

using Settings = std::map<std::string, std::string>;

struct ZooModel {
  std::string name, summary;
  std::vector<std::pair<std::string, std::string>> settings;  // name, default
};
std::vector<ZooModel> list_models();

// Makes a model whose metadata holds "architecture" and "config" (JSON). Throws Error for an unknown model or setting, listing
// the known ones, and for a value of the wrong kind.
std::unique_ptr<Model> make_model(const std::string& name, const Settings& settings, uint64_t seed = 0);

// Makes the same model with states that have no initial values and take no memory, for callers that set every state.
std::unique_ptr<Model> make_uninitialized_model(const std::string& name, const Settings& settings);

// Returns the same language model with a KV cache of `rows` texts of `positions` tokens each (passes/core/cache_size.h). Weights are
// shared and not copied; metadata is kept, except for the cache size in the config of a model of the zoo. Throws Error if the model
// has no caches or learned fewer positions. A file of an older version, whose entry points read one row, gets more rows by making
// the model anew from its config: then it must be from the zoo, with the states of its architecture.
std::unique_ptr<Model> with_cache(const Model& model, int64_t rows, int64_t positions);

// Returns the length in tokens of the longest text that a language model of the zoo can read, according to its config; 0 if the
// config does not say.
int64_t longest_text(const Model& model);
// Returns the positions of a cache that holds a text of `tokens` tokens, or of longest_text() if that is less: those of the
// model's cache if it holds the text, otherwise a power of two, limited to longest_text(). 0 for a model without caches. Throws
// Error if the model learned fewer positions.
int64_t positions_for(const Model& model, int64_t tokens);
// Returns `model` if its cache has positions_for(tokens) positions, otherwise with_cache() with these and the same number of rows.
std::shared_ptr<const Model> with_room(const std::shared_ptr<const Model>& model, int64_t tokens);

}  // namespace genesis::models
