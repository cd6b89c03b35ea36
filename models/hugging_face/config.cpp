#include "models/hugging_face/config.h"

#include <fmt/ranges.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "schema/core/dtype.h"

namespace genesis::models::hugging_face {
namespace {

using nlohmann::json;

std::string shown(const json& value) {
  const std::string text = value.dump(-1, ' ', true, json::error_handler_t::replace);
  return text.size() > 60 ? text.substr(0, 60) + "..." : text;
}

// Reads a configuration field by field and remembers what is wrong with it.
class Reader {
 public:
  explicit Reader(const json& config) : config_(config) {}

  const json& get(const char* name) const {
    static const json none;
    const auto at = config_.find(name);
    return at == config_.end() ? none : *at;
  }
  bool has(const char* name) const { return !get(name).is_null(); }

  void copy_size(const char* name) {
    const json& value = get(name);
    if (!value.is_number_integer() || value < 1 || value > (int64_t{1} << 40)) return refuse(name, "a size");
    settings[name] = std::to_string(value.get<int64_t>());
  }
  void copy_number(const char* name, const json& value) {
    if (!value.is_number() || !std::isfinite(value.get<double>()) || value.get<double>() < 0)
      return refuse(name, "a number that is not negative");
    settings[name] = fmt::format("{}", value.get<double>());
  }
  void copy_flag(const char* name, bool where_absent) {
    if (has(name) && !get(name).is_boolean()) return refuse(name, "true or false");
    settings[name] = (has(name) ? get(name).get<bool>() : where_absent) ? "true" : "false";
  }
  // What is computed differently otherwise; absent is as `only`.
  void must_be(const char* name, const json& only) {
    if (has(name) && get(name) != only) problems.push_back(fmt::format("{}: {}", name, shown(get(name))));
  }
  void refuse(const char* name, const char* expected) {
    problems.push_back(
        fmt::format("{} is {}, expected {}", name, has(name) ? shown(get(name)) : "not there", expected));
  }

  Settings settings;
  std::vector<std::string> problems;

 private:
  const json& config_;
};

void read_dtype(Reader& r) {
  const char* name = r.has("dtype") ? "dtype" : "torch_dtype";
  const json& value = r.get(name);
  if (value.is_null() || value == "float32") return;
  if (value == "bfloat16")
    r.settings["dtype"] = "bf16";
  else if (value == "float16")
    r.settings["dtype"] = "f16";
  else
    r.refuse(name, "float32, bfloat16 or float16");
}

void read_gpt2(Reader& r) {
  for (const char* size : {"vocab_size", "n_positions", "n_embd", "n_layer", "n_head"}) r.copy_size(size);
  if (r.has("layer_norm_epsilon")) r.copy_number("layer_norm_epsilon", r.get("layer_norm_epsilon"));
  if (r.has("n_inner") && r.get("n_embd").is_number_integer() &&
      r.get("n_inner") != 4 * r.get("n_embd").get<int64_t>())
    r.refuse("n_inner", "4 * n_embd");
  r.must_be("activation_function", "gelu_new");
  r.must_be("scale_attn_weights", true);
  r.must_be("scale_attn_by_inverse_layer_idx", false);
  r.must_be("add_cross_attention", false);
  r.must_be("tie_word_embeddings", true);
}

void read_rope(Reader& r) {
  const json& parameters = r.get("rope_parameters");
  const json& theta = parameters.is_object() && parameters.contains("rope_theta") ? parameters["rope_theta"]
                                                                                  : r.get("rope_theta");
  if (theta.is_null())
    r.settings["rope_theta"] = "10000";
  else
    r.copy_number("rope_theta", theta);
  for (const char* name : {"rope_parameters", "rope_scaling"}) {
    const json& scaling = r.get(name);
    if (scaling.is_null()) continue;
    if (!scaling.is_object()) {
      r.refuse(name, "an object");
      continue;
    }
    for (const char* key : {"rope_type", "type"})
      if (scaling.contains(key) && scaling[key] != "default")
        r.problems.push_back(fmt::format("{}.{}: {}", name, key, shown(scaling[key])));
    if (scaling.contains("partial_rotary_factor") && scaling["partial_rotary_factor"] != 1)
      r.problems.push_back(
          fmt::format("{}.partial_rotary_factor: {}", name, shown(scaling["partial_rotary_factor"])));
  }
}

// Windows may be declared and not used.
void read_windows(Reader& r) {
  r.must_be("use_sliding_window", false);
  const json& types = r.get("layer_types");
  if (types.is_null()) return;
  if (!types.is_array()) return r.refuse("layer_types", "a list");
  for (const json& type : types)
    if (type != "full_attention") {
      r.problems.push_back(fmt::format("layer_types: {}", shown(type)));
      return;
    }
}

void read_decoder(Reader& r, bool attention_bias) {
  for (const char* size : {"vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers",
                           "num_attention_heads", "max_position_embeddings"})
    r.copy_size(size);
  if (r.has("num_key_value_heads"))
    r.copy_size("num_key_value_heads");
  else
    r.settings["num_key_value_heads"] = r.settings["num_attention_heads"];
  if (r.has("head_dim")) r.copy_size("head_dim");
  r.copy_number("rms_norm_eps", r.has("rms_norm_eps") ? r.get("rms_norm_eps") : json(1e-6));
  r.copy_flag("tie_word_embeddings", false);
  r.must_be("hidden_act", "silu");
  r.must_be("attention_bias", attention_bias);
  r.must_be("mlp_bias", false);
  r.must_be("quantization_config", nullptr);
  read_rope(r);
  read_windows(r);
}

}  // namespace

ZooSettings read_config(const json& config, const std::filesystem::path& path) {
  if (!config.is_object()) fail("{}: expected a JSON object", path.string());
  Reader r(config);
  const json& type = r.get("model_type");
  if (type == "gpt2")
    read_gpt2(r);
  else if (type == "llama" || type == "qwen2" || type == "qwen3")
    read_decoder(r, type == "qwen2");
  else
    r.refuse("model_type", "gpt2, llama, qwen2 or qwen3");
  read_dtype(r);
  if (!r.problems.empty())
    fail("{}: this model cannot be imported yet, for these settings are not supported:\n  {}", path.string(),
         fmt::join(r.problems, "\n  "));
  return {type.get<std::string>(), std::move(r.settings)};
}

}  // namespace genesis::models::hugging_face
