// Makes the entry of a table of families that says how a model is made, from a struct of settings and a function.
#pragma once

#include "models/config_fields.h"
#include "models/families.h"

namespace genesis::models {

// `standard` has the standard settings and names its fields (models/config_fields.h). make(family, config, seed) returns the
// model; messages about settings begin with the family's name.
template <class Config, class Make>
Network make_network(const Config& standard, Make make) {
  const auto read = [standard](const std::string& family, const nlohmann::json& settings) {
    Config config = standard;
    read_fields(family, settings, config);
    return config;
  };
  return {.settings = fields_json(standard),
          .complete =
              [read](const std::string& family, const nlohmann::json& settings) {
                return nlohmann::json(fields_json(read(family, settings)));
              },
          .make =
              [read, make](const std::string& family, const nlohmann::json& settings, uint64_t seed) {
                const Config config = read(family, settings);
                std::unique_ptr<Model> model = make(family, config, seed);
                model->metadata["architecture"] = family;
                model->metadata["config"] = fields_json(config).dump();
                return model;
              }};
}

}  // namespace genesis::models
