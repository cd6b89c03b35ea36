// Reads the configuration of a model in a foreign format, entry by entry, as settings of the zoo. Problems are collected, so that
// one error can list all of them. Used by the readers of config.json and of GGUF metadata, through the tables of the families.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "schema/file/object_reader.h"

namespace genesis::models {

class SettingsReader : public ObjectReader {
 public:
  // `entries` is an object, which must outlive the reader. Messages write `prefix` before the name of an entry, and enclose texts
  // in `quote`.
  explicit SettingsReader(const nlohmann::json& entries, std::string prefix = "", char quote = '"');

  // Returns an integer; `otherwise` if the entry is none.
  int64_t integer(const std::string& name, int64_t otherwise);

  // These copy an entry to a setting, or refuse it. `where_absent` is the default of the format; null if it requires the entry.
  // A size is an integer from 1 to 2^40, a number is not negative and finite in f32.
  void copy_size(const std::string& name, const std::string& setting,
                 const nlohmann::json& where_absent = {});
  void copy_number(const std::string& name, const std::string& setting,
                   const nlohmann::json& where_absent = {});
  void copy_number_of(const nlohmann::json& value, const std::string& name, const std::string& setting);
  void copy_flag(const std::string& name, const std::string& setting, bool where_absent);
  // Refuses all other values, which change what the model computes. An absent entry is accepted.
  void must_be_one_of(const std::string& name, const std::vector<nlohmann::json>& values);

  void set(const std::string& setting, nlohmann::json value) { settings_[setting] = std::move(value); }
  // Returns an integer among the settings that were read; 0 if there is none.
  int64_t size(const std::string& setting) const;

  void refuse(const std::string& name, const std::string& expected) override;
  void add_problem(std::string problem) { problems_.push_back(std::move(problem)); }
  // Refuses entries that nothing has asked for, for they may change what the model computes, unless their value is null, false,
  // zero or empty.
  void refuse_unknown();

  const nlohmann::json& settings() const { return settings_; }
  const std::vector<std::string>& problems() const { return problems_; }
  // Returns a value for a message, shortened.
  std::string shown(const nlohmann::json& value) const;

 private:
  char quote_;
  nlohmann::json settings_ = nlohmann::json::object();
  std::vector<std::string> problems_;
};

}  // namespace genesis::models
