// Entries of a configuration in a foreign format (config.json, GGUF metadata) and the settings of the zoo that they mean, in both
// directions. The table of a family is a list of them, and is read in its order.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "models/formats/settings_reader.h"

namespace genesis::models {

struct ConfigEntry {
  std::vector<std::string> settings;          // the settings of the zoo that it reads and writes
  std::function<void(SettingsReader&)> read;  // copies the entries to settings, or refuses them
  // Writes the entries of all of the model's settings, which have their types. Empty: nothing is written.
  std::function<void(const nlohmann::json& settings, nlohmann::json& config)> write = {};
  // The entries to remove from a configuration before changed settings are written into it.
  std::vector<std::string> replaces = {};
  bool changes_results = true;  // false: a model with other values computes the same
  // Replaces values of the settings by others that mean the same, so that equal meanings are equal values. Empty: nothing to do.
  std::function<void(nlohmann::json& settings)> normalize = {};
};

using ConfigEntries = std::vector<ConfigEntry>;

// These return an entry that is one setting of the same name, unless `setting` gives another. `where_absent` is the default of the
// format; null if it requires the entry. SettingsReader says which values are accepted.
ConfigEntry size_entry(const std::string& name, const nlohmann::json& where_absent = {},
                       const std::string& setting = "");
ConfigEntry number_entry(const std::string& name, const nlohmann::json& where_absent = {},
                         const std::string& setting = "");
ConfigEntry flag_entry(const std::string& name, bool where_absent);

// Returns an entry that is written under each of the names, and is not read, for it does not change results.
ConfigEntry written_entry(const std::string& setting, const std::vector<std::string>& names);

// Returns an entry that may be absent or one of `values`, because any other would change the results. The first one is written if
// `is_written`.
ConfigEntry only_entry(const std::string& name, const std::vector<nlohmann::json>& values, bool is_written);

// Returns an entry that is written with this value, and ignored when read.
ConfigEntry constant_entry(const std::string& name, const nlohmann::json& value);

// Returns an entry of names that are read without effect.
ConfigEntry ignored_entry(const std::vector<std::string>& names);

// Returns the lists one after the other.
ConfigEntries joined(ConfigEntries first, const ConfigEntries& second);

}  // namespace genesis::models
