#include "models/families/decoder/config_json.h"

#include <fmt/format.h>

#include <algorithm>

#include "models/config_sizes.h"
#include "models/families/decoder/rotation_json.h"

namespace genesis::models {

using nlohmann::json;

namespace {

json or_null(const std::optional<int64_t>& value) { return value ? json(*value) : json(); }

ConfigEntry key_value_heads_entry(const json& where_absent) {
  ConfigEntry entry = size_entry("num_key_value_heads", where_absent);
  entry.read = [copy = entry.read, where_absent](SettingsReader& r) {
    if (!r.given("num_key_value_heads", where_absent).is_null()) return copy(r);
    if (const int64_t heads = r.size("num_attention_heads")) r.set("num_key_value_heads", heads);
  };
  return entry;
}

ConfigEntry head_dim_entry(const json& where_absent) {
  ConfigEntry entry = size_entry("head_dim", where_absent);
  entry.read = [copy = entry.read, where_absent](SettingsReader& r) {
    if (!r.given("head_dim", where_absent).is_null()) copy(r);
  };
  entry.normalize = [](json& settings) {
    const int64_t heads = settings.at("num_attention_heads");
    if (settings.at("head_dim") == 0 && heads > 0)
      settings["head_dim"] = settings.at("hidden_size").get<int64_t>() / heads;
  };
  return entry;
}

// Lists every layer if all of them slide, and none if there is no window.
void normalize_windows(json& settings) {
  const int64_t layers = settings.at("num_hidden_layers");
  json& types = settings["layer_types"];
  if (settings.at("sliding_window") == 0)
    types = json::array();
  else if (types.empty() && layers > 0 && layers <= kMaxLayers)
    types = std::vector<std::string>(static_cast<size_t>(layers), "sliding_attention");
}

// Returns the attention type of each layer: from layer_types, else by default if windows are in use; else empty.
std::vector<std::string> layer_types(SettingsReader& r, bool is_in_use, const SlidesByDefault& slides) {
  std::vector<std::string> types;
  const json& listed = r.get("layer_types");
  if (listed.is_null()) {
    const int64_t layers = std::min(r.size("num_hidden_layers"), kMaxLayers);
    for (int64_t i = 0; is_in_use && i < layers; ++i)
      types.emplace_back(slides(r, i) ? "sliding_attention" : "full_attention");
    return types;
  }
  if (!listed.is_array()) r.refuse("layer_types", "a list");
  for (const json& type : listed) {
    if (type != "full_attention" && type != "sliding_attention") {
      r.add_problem(fmt::format("layer_types: {}", r.shown(type)));
      break;
    }
    types.push_back(type);
  }
  return types;
}

void read_windows(SettingsReader& r, bool is_in_use, const json& window, const SlidesByDefault& slides) {
  r.ignore({"sliding_window", "max_window_layers"});
  const std::vector<std::string> types = layer_types(r, is_in_use, slides);
  if (std::ranges::find(types, "sliding_attention") == types.end()) return;
  if (!is_in_use)
    return r.add_problem(
        "layer_types: \"sliding_attention\", but no sliding_window is in use (use_sliding_window)");
  r.copy_size("sliding_window", "sliding_window", window);
  r.set("layer_types", types);
}

void write_windows(const json& settings, json& config) {
  const bool slides = settings.at("sliding_window") != 0;
  config["use_sliding_window"] = slides;
  if (!slides) return;
  config["sliding_window"] = settings.at("sliding_window");
  config["layer_types"] = settings.at("layer_types");
}

// Says for each layer what it sees, also if there is no window.
void write_layer_windows(const json& settings, json& config) {
  const json& window = settings.at("sliding_window");
  config["sliding_window"] = window == 0 ? json() : window;
  const int64_t layers = std::clamp<int64_t>(settings.at("num_hidden_layers"), 0, kMaxLayers);
  const std::vector<std::string> full(static_cast<size_t>(layers), "full_attention");
  config["layer_types"] = window == 0 ? json(full) : settings.at("layer_types");
}

}  // namespace

ConfigEntries decoder_config(const DecoderDefaults& defaults, const ConfigEntries& more) {
  ConfigEntry positions = size_entry("max_position_embeddings", defaults.max_position_embeddings);
  positions.changes_results = false;
  ConfigEntries all;
  if (defaults.partial_rotary_factor)
    all.push_back(partial_rotation_entry(*defaults.partial_rotary_factor));
  else
    all.push_back(only_entry("partial_rotary_factor", {1}, false));
  if (defaults.rope_local_base_freq) all.push_back(local_theta_entry(*defaults.rope_local_base_freq));
  if (defaults.norm_eps_name)
    all.push_back(number_entry(defaults.norm_eps_name, defaults.norm_eps, "rms_norm_eps"));
  all = joined(
      all,
      {size_entry("vocab_size", defaults.vocab_size), size_entry("hidden_size", defaults.hidden_size),
       size_entry("intermediate_size", defaults.intermediate_size),
       size_entry("num_hidden_layers", defaults.num_hidden_layers),
       size_entry("num_attention_heads", defaults.num_attention_heads), positions,
       key_value_heads_entry(or_null(defaults.num_key_value_heads)),
       head_dim_entry(or_null(defaults.head_dim)),
       flag_entry("tie_word_embeddings", defaults.tie_word_embeddings),
       only_entry(defaults.activation_name, defaults.activations, true),
       only_entry("is_causal", {true}, false), theta_entry(defaults.rope_theta), rotation_entry(),
       written_entry("initializer_range", {"initializer_range"}), constant_entry("attention_dropout", 0.0)});
  return joined(all, more);
}

bool slides_from_max_window_layers(SettingsReader& r, int64_t layer) {
  return layer >= r.integer("max_window_layers", 28);
}

ConfigEntry no_windows_entry() {
  return {.settings = {},
          .read =
              [](SettingsReader& r) {
                r.must_be_one_of("use_sliding_window", {false});
                read_windows(r, false, nullptr, {});
              },
          .normalize = normalize_windows};
}

ConfigEntry chosen_windows_entry(const json& window, const SlidesByDefault& slides) {
  return {.settings = {"sliding_window", "layer_types"},
          .read =
              [=](SettingsReader& r) {
                r.must_be_one_of("use_sliding_window", {false, true});
                const bool is_in_use =
                    r.get("use_sliding_window") == true && !r.given("sliding_window", window).is_null();
                read_windows(r, is_in_use, window, slides);
              },
          .write = write_windows,
          .replaces = {"sliding_window", "layer_types", "max_window_layers"},
          .normalize = normalize_windows};
}

bool all_slide(SettingsReader&, int64_t) { return true; }

SlidesByDefault slides_by_pattern(int64_t pattern) {
  return [=](SettingsReader& r, int64_t layer) {
    return (layer + 1) % std::max<int64_t>(1, r.integer("sliding_window_pattern", pattern)) != 0;
  };
}

ConfigEntry layer_windows_entry(const json& window, const SlidesByDefault& slides) {
  return {.settings = {"sliding_window", "layer_types"},
          .read =
              [=](SettingsReader& r) {
                r.ignore({"sliding_window_pattern", "_sliding_window_pattern"});
                const bool is_in_use = !r.given("sliding_window", window).is_null();
                const std::vector<std::string> types = layer_types(r, is_in_use, slides);
                if (is_in_use) {
                  r.copy_size("sliding_window", "sliding_window", window);
                  r.set("layer_types", types);
                } else if (std::ranges::find(types, "sliding_attention") != types.end()) {
                  r.add_problem("layer_types: \"sliding_attention\", but sliding_window is null");
                }
              },
          .write = write_layer_windows,
          .replaces = {"sliding_window", "layer_types", "sliding_window_pattern", "_sliding_window_pattern"},
          .normalize = normalize_windows};
}

ConfigEntry optional_number_entry(const std::string& name, const json& where_absent) {
  return {.settings = {name},
          .read =
              [=](SettingsReader& r) {
                const json& value = r.given(name, where_absent);
                r.copy_number_of(value.is_null() ? json(0.0) : value, name, name);
              },
          .write = [=](const json& settings,
                       json& config) { config[name] = settings.at(name) == 0 ? json() : settings.at(name); }};
}

std::vector<json> names_of_gelu_tanh() {
  return {"gelu_pytorch_tanh", "gelu_new", "gelu_python_tanh", "gelu_fast", "gelu_accurate"};
}

ConfigEntry window_entry(const json& window) {
  return {.settings = {"sliding_window"},
          .read =
              [=](SettingsReader& r) {
                if (!r.given("sliding_window", window).is_null())
                  r.copy_size("sliding_window", "sliding_window", window);
              },
          .write =
              [](const json& settings, json& config) {
                const json& size = settings.at("sliding_window");
                config["sliding_window"] = size == 0 ? json() : size;
              },
          .normalize = normalize_windows};
}

}  // namespace genesis::models
