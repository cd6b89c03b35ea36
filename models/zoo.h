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

struct ZooModel {
  std::string name, summary;
  std::vector<std::pair<std::string, std::string>> settings;  // name, default
};
std::vector<ZooModel> list_models();

// The model's metadata holds "architecture" and "config" (JSON). Throws Error naming an unknown model or
// setting, or a value of the wrong kind, with what is known.
std::unique_ptr<Model> make_model(const std::string& name, const Settings& settings, uint64_t seed = 0);

}  // namespace genesis::models
