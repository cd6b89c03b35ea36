#include "models/formats/config_entry.h"

namespace genesis::models {

using nlohmann::json;

namespace {

ConfigEntry copied(const std::string& name, const std::string& setting,
                   std::function<void(SettingsReader&)> read) {
  return {.settings = {setting}, .read = std::move(read), .write = [=](const json& settings, json& config) {
            config[name] = settings.at(setting);
          }};
}

}  // namespace

ConfigEntry size_entry(const std::string& name, const json& where_absent, const std::string& setting) {
  const std::string to = setting.empty() ? name : setting;
  return copied(name, to, [=](SettingsReader& r) { r.copy_size(name, to, where_absent); });
}

ConfigEntry number_entry(const std::string& name, const json& where_absent, const std::string& setting) {
  const std::string to = setting.empty() ? name : setting;
  return copied(name, to, [=](SettingsReader& r) { r.copy_number(name, to, where_absent); });
}

ConfigEntry flag_entry(const std::string& name, bool where_absent) {
  return copied(name, name, [=](SettingsReader& r) { r.copy_flag(name, name, where_absent); });
}

ConfigEntry written_entry(const std::string& setting, const std::vector<std::string>& names) {
  return {.settings = {setting},
          .read = [=](SettingsReader& r) { r.ignore(names); },
          .write =
              [=](const json& settings, json& config) {
                for (const std::string& name : names) config[name] = settings.at(setting);
              },
          .changes_results = false};
}

ConfigEntry only_entry(const std::string& name, const std::vector<json>& values, bool is_written) {
  ConfigEntry entry{.settings = {}, .read = [=](SettingsReader& r) { r.must_be_one_of(name, values); }};
  if (is_written) entry.write = [=](const json&, json& config) { config[name] = values.front(); };
  return entry;
}

ConfigEntry constant_entry(const std::string& name, const json& value) {
  return {.settings = {},
          .read = [=](SettingsReader& r) { r.ignore({name}); },
          .write = [=](const json&, json& config) { config[name] = value; }};
}

ConfigEntry ignored_entry(const std::vector<std::string>& names) {
  return {.settings = {}, .read = [=](SettingsReader& r) { r.ignore(names); }};
}

ConfigEntries joined(ConfigEntries first, const ConfigEntries& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

}  // namespace genesis::models
