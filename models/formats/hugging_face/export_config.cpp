#include "models/formats/hugging_face/export_config.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "models/formats/hugging_face/json_file.h"
#include "schema/core/parse_number.h"
#include "schema/file/json_text.h"

namespace genesis::models::hugging_face {
namespace {

using nlohmann::json;

// The class name of a model of the zoo in transformers, and the entries of config.json that are not settings of the zoo.
struct Family {
  const char *model, *class_name;
  json others;
};

// Adds the entries that all models have: no token of the vocabulary begins or ends a text.
json with_common(json others) {
  for (const char* token : {"bos_token_id", "eos_token_id", "pad_token_id"}) others[token] = nullptr;
  others["use_cache"] = true;
  return others;
}

json decoder(json others) {
  others["hidden_act"] = "silu";
  others["attention_dropout"] = 0.0;
  return with_common(std::move(others));
}

const Family& family_of(const std::string& model) {
  static const std::vector<Family> families = {
      {"gpt2", "GPT2LMHeadModel", with_common(json::object({{"activation_function", "gelu_new"}}))},
      {"llama", "LlamaForCausalLM", decoder(json::object({{"attention_bias", false}, {"mlp_bias", false}}))},
      {"qwen2", "Qwen2ForCausalLM", decoder(json::object({{"use_sliding_window", false}}))},
      {"qwen3", "Qwen3ForCausalLM",
       decoder(json::object({{"attention_bias", false}, {"use_sliding_window", false}}))},
  };
  for (const Family& family : families)
    if (family.model == model) return family;
  fail("transformers has no form for the model '{}': exported are gpt2, llama, qwen2 and qwen3", model);
}

const std::string& fact(const Model& model, const char* key) {
  const auto at = model.metadata.find(key);
  if (at == model.metadata.end())
    fail(
        "the model's metadata have no '{}': exported is what genesis-build made (gpt2, llama, qwen2, qwen3), "
        "and what was trained from it",
        key);
  return at->second;
}

json parse_fact(const Model& model, const char* key) {
  json value = with_context([&] { return parse_json(fact(model, key)); },
                            [&] { return fmt::format("in the model's metadata '{}'", key); });
  if (!value.is_object()) fail("the model's metadata '{}' are no JSON object", key);
  return value;
}

// Parses a setting as JSON, so that "1e-06" and "0.000001" compare equal.
json value_of(const std::string& text) {
  const json value = try_parse_json_text(text);
  return value.is_discarded() ? json(text) : value;
}

bool same(const std::string& a, const std::string& b) { return value_of(a) == value_of(b); }

// Returns the layer types separated by commas. Lists every layer if all of them slide; "" if there is no window.
std::string layer_types(const Settings& settings, int64_t window, int64_t layers) {
  const json listed = value_of(settings.at("layer_types"));
  std::vector<std::string> types;
  if (window == 0) return "";
  if (listed.is_string()) return listed.get<std::string>();
  if (listed.is_array() && listed.empty()) types.assign(static_cast<size_t>(layers), "sliding_attention");
  for (const json& type : listed) types.push_back(type.is_string() ? type.get<std::string>() : type.dump());
  return fmt::format("{}", fmt::join(types, ","));
}

// Adds the default values of settings that are missing.
Settings completed(const std::string& name, const Settings& settings) {
  Settings all = settings;
  for (const ZooModel& model : list_models())
    if (model.name == name) all.insert(model.settings.begin(), model.settings.end());
  const auto number = [&](const char* key) { return parse_number<int64_t>(all.at(key)).value_or(0); };
  if (all.contains("head_dim") && number("head_dim") == 0 && number("num_attention_heads") > 0)
    all["head_dim"] = std::to_string(number("hidden_size") / number("num_attention_heads"));
  if (all.contains("layer_types"))
    all["layer_types"] = layer_types(all, number("sliding_window"), number("num_hidden_layers"));
  return all;
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

// The parameters of rope_scaling by kind: pairs of the name in config.json and the name of the setting.
using Parameters = std::vector<std::pair<const char*, const char*>>;
const std::map<std::string, Parameters>& scaled_rotations() {
  static const std::pair<const char*, const char*> factor{"factor", "rope_factor"},
      original{"original_max_position_embeddings", "rope_original_positions"};
  static const std::map<std::string, Parameters> kinds = {
      {"linear", {factor}},
      {"dynamic", {factor}},
      {"llama3",
       {factor,
        original,
        {"low_freq_factor", "rope_low_freq_factor"},
        {"high_freq_factor", "rope_high_freq_factor"}}},
      {"yarn",
       {factor,
        original,
        {"beta_fast", "rope_beta_fast"},
        {"beta_slow", "rope_beta_slow"},
        {"truncate", "rope_truncate"},
        {"attention_factor", "rope_attention_factor"}}},
      {"proportional", {factor, {"partial_rotary_factor", "rope_proportion"}}}};
  return kinds;
}

// Writes the scaling of RoPE. Version 5 of transformers calls it rope_parameters, but reads rope_scaling, too.
void put_rotations(json& config, const Settings& settings) {
  const auto kind = settings.find("rope_scaling");
  if (kind == settings.end() || !scaled_rotations().contains(kind->second)) return;
  json parameters = json::object({{"rope_type", kind->second}});
  for (const auto& [name, setting] : scaled_rotations().at(kind->second))
    parameters[name] = value_of(settings.at(setting));
  config["rope_scaling"] = parameters;
  if (kind->second == "dynamic")
    config["max_position_embeddings"] = value_of(settings.at("rope_original_positions"));
}

void put_windows(json& config, const Settings& settings) {
  const auto window = settings.find("sliding_window");
  if (window == settings.end() || same(window->second, "0")) return;
  config["use_sliding_window"] = true;
  config["sliding_window"] = value_of(window->second);
  std::istringstream types(settings.at("layer_types"));
  for (std::string type; std::getline(types, type, ',');) config["layer_types"].push_back(type);
}

// Returns true for the settings that the model's kind of RoPE scaling uses, beside theta; it ignores all others.
bool is_of_rotations(const std::string& name, const Settings& settings) {
  const auto kind = settings.find("rope_scaling");
  if (name == "rope_scaling" || kind == settings.end()) return name == "rope_scaling";
  const auto parameters = scaled_rotations().find(kind->second);
  if (parameters == scaled_rotations().end()) return false;
  if (kind->second == "dynamic" && name == "rope_original_positions") return true;
  return std::ranges::any_of(parameters->second, [&](const auto& row) { return row.second == name; });
}

bool is_of_windows(const std::string& name) { return name == "sliding_window" || name == "layer_types"; }

// Returns true if transformers has a setting of this name and meaning.
bool is_plain(const std::string& name) {
  for (const char* other : {"dtype", "dropout", "batch", "cache_positions", "sliding_window", "layer_types"})
    if (name == other) return false;
  return name == "rope_theta" || !name.starts_with("rope_");
}

json config_from(const Family& family, const Settings& settings) {
  json config = family.others;
  config["model_type"] = family.model;
  for (const auto& [name, text] : settings)
    if (is_plain(name)) config[name] = value_of(text);
  put_rotations(config, settings);
  if (family.others.contains("use_sliding_window")) put_windows(config, settings);
  if (settings.contains("dropout"))
    for (const char* name : {"attn_pdrop", "embd_pdrop", "resid_pdrop"})
      config[name] = value_of(settings.at("dropout"));
  return config;
}

// Returns false for settings that do not change what a model computes: length of the cache, dtype and initialization of weights,
// dropout.
bool is_compared(const std::string& name, const Settings& settings) {
  for (const char* other :
       {"max_position_embeddings", "cache_positions", "batch", "dtype", "initializer_range", "dropout"})
    if (name == other) return false;
  return name == "rope_theta" || !name.starts_with("rope_") || is_of_rotations(name, settings);
}

// Returns the settings of the model that a config.json gives another value.
std::vector<std::string> changed(const json& config, const ZooSettings& zoo) {
  const Settings read = completed(zoo.model, read_config(config, "config.json").settings);
  std::vector<std::string> names;
  for (const auto& [name, text] : zoo.settings)
    if (is_compared(name, zoo.settings) && !(read.contains(name) && same(read.at(name), text)))
      names.push_back(name);
  return names;
}

// Writes theta where read_config() looks for it: version 5 of transformers keeps it with the parameters of the scaling.
void put_theta(json& config, const std::string& text) {
  const auto rope = config.find("rope_parameters");
  const bool inside = rope != config.end() && rope->is_object() && !rope->empty();
  (inside ? *rope : config)["rope_theta"] = value_of(text);
}

// Replaces all RoPE parameters. Theta is written again, because it may be inside of an erased object.
void replace_rotations(json& config, const Settings& settings) {
  for (const char* name : {"rope_scaling", "rope_parameters", "original_max_position_embeddings"})
    config.erase(name);
  put_theta(config, settings.at("rope_theta"));
  put_rotations(config, settings);
}

void replace_windows(json& config, const Settings& settings) {
  for (const char* name : {"sliding_window", "layer_types", "max_window_layers"}) config.erase(name);
  config["use_sliding_window"] = false;
  put_windows(config, settings);
}

// Returns the config.json that the model came with, updated by the settings that were changed since.
json original_config(const Model& model, const Family& family, const ZooSettings& zoo) {
  json config = parse_fact(model, "config.json");
  const std::vector<std::string> names = changed(config, zoo);
  const auto any = [&](const auto& is_one) { return std::ranges::any_of(names, is_one); };
  for (const std::string& name : names)
    if (is_plain(name) && name != "rope_theta") config[name] = value_of(zoo.settings.at(name));
  if (std::ranges::find(names, "rope_theta") != names.end()) put_theta(config, zoo.settings.at("rope_theta"));
  if (any([&](const std::string& name) { return is_of_rotations(name, zoo.settings); }))
    replace_rotations(config, zoo.settings);
  if (family.others.contains("use_sliding_window") && any(is_of_windows))
    replace_windows(config, zoo.settings);
  return config;
}

void put_dtype(json& config, DType dtype) {
  const auto at = config.find("dtype");
  config[at != config.end() && !at->is_null() ? "dtype" : "torch_dtype"] = dtype_name(dtype);
}

}  // namespace

ZooSettings zoo_settings(const Model& model) {
  ZooSettings zoo{fact(model, "architecture"), {}};
  family_of(zoo.model);
  const json config = parse_fact(model, "config");
  for (const auto& [name, value] : config.items())
    zoo.settings[name] = value.is_string() ? value.get<std::string>() : value.dump();
  zoo.settings = completed(zoo.model, zoo.settings);
  return zoo;
}

json config_for_export(const Model& model, const ZooSettings& zoo, DType dtype) {
  const Family& family = family_of(zoo.model);
  const bool imported = model.metadata.contains("config.json");
  json config = imported ? original_config(model, family, zoo) : config_from(family, zoo.settings);
  config["architectures"] = json::array({family.class_name});
  put_dtype(config, dtype);
  if (const auto lost = changed(config, zoo); !lost.empty())
    fail("a config.json cannot say what the model was made with: {}", fmt::join(lost, ", "));
  return config;
}

}  // namespace genesis::models::hugging_face
