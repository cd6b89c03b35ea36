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

// Returns the same language model with a KV cache of `rows` texts of `positions` tokens each. Entry points are rebuilt
// (models/decoder.h says how they differ with rows > 1), weights are shared and not copied, LoRA adapters are kept, and so is
// metadata except for the cache size in the config. Throws Error if the model is not a decoder of the zoo, or if its states
// differ from those of its architecture.
std::unique_ptr<Model> with_cache(const Model& model, int64_t rows, int64_t positions);

// Returns the length in tokens of the longest text that a language model of the zoo can read, according to its config; 0 if the
// config does not say.
int64_t longest_text(const Model& model);
// Returns `model` if its KV cache holds texts of `tokens` tokens, or of longest_text() if that is less. Otherwise returns
// with_cache() with the same number of rows, and with positions rounded up to a power of two, limited to longest_text(). Throws
// as with_cache() does.
std::shared_ptr<const Model> with_room(const std::shared_ptr<const Model>& model, int64_t tokens);

}  // namespace genesis::models
