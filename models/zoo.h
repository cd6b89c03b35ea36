// The models of the zoo by name, with settings given as text: what `genesis-build NAME --set key=value`
// calls.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "schema/graph/model.h"

namespace genesis::models {

using Settings = std::map<std::string, std::string>;

// What a configuration in another format means here.
struct ZooSettings {
  std::string model;  // "qwen2"
  Settings settings;
};

struct ZooModel {
  std::string name, summary;
  std::vector<std::pair<std::string, std::string>> settings;  // name, default
};
std::vector<ZooModel> list_models();

// The model's metadata holds "architecture" and "config" (JSON). Throws Error naming an unknown model or
// setting, or a value of the wrong kind, with what is known.
std::unique_ptr<Model> make_model(const std::string& name, const Settings& settings, uint64_t seed = 0);

// The same with states that hold no values and take no memory, for who gives all of them theirs.
std::unique_ptr<Model> make_undrawn_model(const std::string& name, const Settings& settings);

// The same language model with a KV cache of `rows` texts of `positions` tokens each: the entry points are made anew
// (models/decoder.h says how they differ with rows > 1), weights are shared and not copied, metadata is kept but for what
// the config says of the cache. Throws Error where the model is no decoder of the zoo, or has other states than the zoo
// gives it (as after adding LoRA).
std::unique_ptr<Model> with_cache(const Model& model, int64_t rows, int64_t positions);

// The most tokens of a text that a language model of the zoo can read, as its config says; 0 where it says nothing.
int64_t longest_text(const Model& model);
// `model` where its KV cache holds texts of `tokens`, or of the longest that it can read; else with_cache() of as many rows, and of
// the next power of two of positions, or as many as it can read. Throws as with_cache() does.
std::shared_ptr<const Model> with_room(const std::shared_ptr<const Model>& model, int64_t tokens);

}  // namespace genesis::models
