#include "models/formats/hugging_face/export_config.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "schema/file/json_text.h"

namespace genesis::models::hugging_face {
namespace {

using nlohmann::json;

const std::string& fact(const Model& model, const char* key) {
  const auto at = model.metadata.find(key);
  if (at == model.metadata.end())
    fail(
        "the model's metadata have no '{}': exported is what genesis-build made ({}), and what was trained "
        "from it",
        key, hugging_face_families("and"));
  return at->second;
}

json parse_fact(const Model& model, const char* key) {
  return parse_json_object(fact(model, key), fmt::format("the model's metadata '{}'", key));
}

const char* dtype_name(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return "float32";
    case DType::f16:
      return "float16";
    case DType::bf16:
      return "bfloat16";
    default:
      fail("weights that are {} are exported as f32, bf16 or f16 only: say as which", name_of(dtype));
  }
}

// Returns all settings with their types, and equal values for equal meanings.
json normalized(const Family& family, const json& settings) {
  json all = family.network.complete(family.name, settings);
  for (const ConfigEntry& entry : family.hugging_face->config)
    if (entry.normalize) entry.normalize(all);
  return all;
}

// Returns the names of settings that do not change what a model computes.
std::set<std::string> without_effect(const Family& family) {
  std::set<std::string> names = {"batch", "cache_positions", "dtype"};
  for (const ConfigEntry& entry : family.hugging_face->config)
    if (!entry.changes_results) names.insert(entry.settings.begin(), entry.settings.end());
  return names;
}

// Returns the settings of the model that a config.json gives another value.
std::vector<std::string> changed(const json& config, const FamilySettings& made) {
  const FamilySettings read = read_config(config, "config.json");
  const json theirs = read.family == made.family ? normalized(*made.family, read.settings) : json::object();
  const std::set<std::string> passed_over = without_effect(*made.family);
  std::vector<std::string> names;
  for (const auto& [name, value] : made.settings.items())
    if (!passed_over.contains(name) && !(theirs.contains(name) && theirs.at(name) == value))
      names.push_back(name);
  return names;
}

json written_config(const FamilySettings& made) {
  json config = {{"model_type", made.family->hugging_face->model_type}, {"use_cache", true}};
  // No token of the vocabulary begins or ends a text.
  for (const char* token : {"bos_token_id", "eos_token_id", "pad_token_id"}) config[token] = nullptr;
  for (const ConfigEntry& entry : made.family->hugging_face->config)
    if (entry.write) entry.write(made.settings, config);
  return config;
}

// Returns the config.json that the model came with, updated by the settings that were changed since.
json original_config(const Model& model, const FamilySettings& made) {
  json config = parse_fact(model, "config.json");
  const std::vector<std::string> names = changed(config, made);
  const auto is_changed = [&](const std::string& setting) {
    return std::ranges::find(names, setting) != names.end();
  };
  for (const ConfigEntry& entry : made.family->hugging_face->config) {
    if (!entry.write || std::ranges::none_of(entry.settings, is_changed)) continue;
    for (const std::string& name : entry.replaces) config.erase(name);
    entry.write(made.settings, config);
  }
  return config;
}

void put_dtype(json& config, DType dtype) {
  const auto at = config.find("dtype");
  config[at != config.end() && !at->is_null() ? "dtype" : "torch_dtype"] = dtype_name(dtype);
}

}  // namespace

FamilySettings settings_of(const Model& model) {
  const std::string& name = fact(model, "architecture");
  const Family* family = find_family(name);
  if (!family || !family->hugging_face)
    fail("transformers has no form for the model '{}': exported are {}", name, hugging_face_families("and"));
  return {family, normalized(*family, parse_fact(model, "config"))};
}

json config_for_export(const Model& model, const FamilySettings& made, DType dtype) {
  const bool is_imported = model.metadata.contains("config.json");
  json config = is_imported ? original_config(model, made) : written_config(made);
  const HuggingFaceForm& form = *made.family->hugging_face;
  config["architectures"] = json::array({form.class_of ? form.class_of(made.settings) : form.class_name});
  put_dtype(config, dtype);
  if (const auto lost = changed(config, made); !lost.empty())
    fail("a config.json cannot say what the model was made with: {}", fmt::join(lost, ", "));
  return config;
}

}  // namespace genesis::models::hugging_face
