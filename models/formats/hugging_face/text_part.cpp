#include "models/formats/hugging_face/text_part.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

namespace genesis::models::hugging_face {
namespace {

using nlohmann::json;

// A model that reads images, or the language model of one: its model_type, and the class of its language model alone.
struct WithImages {
  const char* model_type;
  const char* text_type;  // null: that of text_config
  json defaults = {};     // entries of text_config whose defaults are other than those of text_type
};

const WithImages* find_with_images(const json& config) {
  static const json kQwen2 = {{"rms_norm_eps", 1e-5}, {"max_window_layers", 80}};
  static const WithImages kAll[] = {
      {"qwen2_vl", "qwen2", kQwen2},
      {"qwen2_5_vl", "qwen2", kQwen2},
      {"qwen3_vl", "qwen3"},
      {"qwen3_5", nullptr},
      {"qwen3_5_moe", nullptr},
      {"kimi_k2", "deepseek_v3"},  // the same network; its own code has the name
      {"mistral3", nullptr},
      {"gemma3", nullptr},
      {"gemma4", nullptr}};
  const json type = config.is_object() ? config.value("model_type", json()) : json();
  const auto* found = std::ranges::find_if(kAll, [&](const auto& one) { return type == one.model_type; });
  return found == std::end(kAll) ? nullptr : found;
}

// Returns the entries of the language model. The first versions of Qwen-VL have them beside vision_config.
json text_entries(const json& config) {
  if (config.contains("text_config")) return config.at("text_config");
  json text = config;
  for (const char* name : {"vision_config", "vision_start_token_id", "vision_end_token_id", "vision_token_id",
                           "image_token_id", "video_token_id"})
    text.erase(name);
  return text;
}

void make_rotation_plain(json& text) {
  for (const char* name : {"rope_scaling", "rope_parameters"}) {
    if (!text.contains(name) || !text[name].is_object()) continue;
    json& rope = text[name];
    for (const char* type : {"type", "rope_type"})
      if (rope.value(type, json()) == "mrope") rope[type] = "default";
    rope.erase("mrope_section");
    rope.erase("mrope_interleaved");
  }
}

}  // namespace

json text_part(const json& config) {
  const WithImages* found = find_with_images(config);
  if (!found) return config;
  json text = text_entries(config);
  if (!text.is_object()) return config;
  for (const auto& [name, value] : found->defaults.items())
    if (!text.contains(name)) text[name] = value;
  if (found->text_type) text["model_type"] = found->text_type;
  text.erase("architectures");
  // These are of the whole model, and override those of the language model.
  for (const char* name : {"tie_word_embeddings", "dtype", "torch_dtype"})
    if (config.contains(name) && !config.at(name).is_null()) text[name] = config.at(name);
  make_rotation_plain(text);
  return text;
}

std::string text_name(const std::string& name) {
  for (const auto& [longer, shorter] :
       {std::pair<std::string, std::string>{"model.language_model.", "model."},
        {"language_model.model.", "model."},
        {"language_model.lm_head.", "lm_head."}})
    if (name.starts_with(longer)) return shorter + name.substr(longer.size());
  return name;
}

}  // namespace genesis::models::hugging_face
