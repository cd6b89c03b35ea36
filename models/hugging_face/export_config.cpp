#include "models/hugging_face/export_config.h"

#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "models/hugging_face/json_file.h"
#include "schema/core/parse_number.h"

namespace genesis::models::hugging_face {
namespace {

using nlohmann::json;

// What transformers calls a model of the zoo, and what it has to be told beside its settings.
struct Family {
  const char *model, *class_name;
  json others;
};

// `others` with what is the same for all: no token of the vocabulary begins or ends a text.
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
      {"gpt2", "GPT2LMHeadModel",
       with_common(json::object({{"activation_function", "gelu_new"}, {"tie_word_embeddings", true}}))},
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
  const json value = with_context([&] { return parse_json(fact(model, key)); },
                                  [&] { return fmt::format("in the model's metadata '{}'", key); });
  if (!value.is_object()) fail("the model's metadata '{}' are no JSON object", key);
  return value;
}

// A setting as JSON; "1e-06" and "0.000001" are the same number.
json value_of(const std::string& text) {
  const json value = json::parse(text, nullptr, false);
  return value.is_discarded() ? json(text) : value;
}

bool same(const std::string& a, const std::string& b) { return value_of(a) == value_of(b); }

// With the standard values of what `settings` leave out.
Settings completed(const std::string& name, const Settings& settings) {
  Settings all = settings;
  for (const ZooModel& model : list_models())
    if (model.name == name) all.insert(model.settings.begin(), model.settings.end());
  const auto number = [&](const char* key) { return parse_number<int64_t>(all.at(key)).value_or(0); };
  if (all.contains("head_dim") && number("head_dim") == 0 && number("num_attention_heads") > 0)
    all["head_dim"] = std::to_string(number("hidden_size") / number("num_attention_heads"));
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

void put(json& config, const std::string& name, const std::string& text) {
  const auto rope = config.find("rope_parameters");
  const bool inside = name.starts_with("rope_") && rope != config.end() && rope->is_object();
  (inside ? *rope : config)[name] = value_of(text);
}

json config_from(const Family& family, const Settings& settings) {
  json config = family.others;
  config["model_type"] = family.model;
  for (const auto& [name, text] : settings)
    if (name != "dtype" && name != "dropout") config[name] = value_of(text);
  if (settings.contains("dropout"))
    for (const char* name : {"attn_pdrop", "embd_pdrop", "resid_pdrop"})
      config[name] = value_of(settings.at("dropout"));
  return config;
}

// What says how long the cache is, how weights are kept and how they were drawn, and nothing of what a model computes.
bool is_compared(const std::string& name) {
  return name != "max_position_embeddings" && name != "dtype" && name != "initializer_range" &&
         name != "dropout";
}

// Settings of the model that a config.json gives otherwise.
std::vector<std::string> changed(const json& config, const ZooSettings& zoo) {
  const Settings read = completed(zoo.model, read_config(config, "config.json").settings);
  std::vector<std::string> names;
  for (const auto& [name, text] : zoo.settings)
    if (is_compared(name) && !(read.contains(name) && same(read.at(name), text))) names.push_back(name);
  return names;
}

json original_config(const Model& model, const ZooSettings& zoo) {
  json config = parse_fact(model, "config.json");
  for (const std::string& name : changed(config, zoo)) put(config, name, zoo.settings.at(name));
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
  json config = imported ? original_config(model, zoo) : config_from(family, zoo.settings);
  config["architectures"] = json::array({family.class_name});
  put_dtype(config, dtype);
  if (const auto lost = changed(config, zoo); !lost.empty())
    fail("a config.json cannot say what the model was made with: {}", fmt::join(lost, ", "));
  return config;
}

}  // namespace genesis::models::hugging_face
