// The config.json of decoders in transformers: the entries that all classes have, and those that some have.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "models/formats/config_entry.h"

namespace genesis::models {

// The values that a class of transformers takes for entries that are absent.
struct DecoderDefaults {
  int64_t vocab_size = 32000;
  int64_t hidden_size = 4096;
  int64_t intermediate_size = 11008;
  int64_t num_hidden_layers = 32;
  int64_t num_attention_heads = 32;
  std::optional<int64_t> num_key_value_heads = {};  // empty: num_attention_heads
  std::optional<int64_t> head_dim = {};             // empty: hidden_size / num_attention_heads
  int64_t max_position_embeddings = 2048;
  double rope_theta = 1e4;
  bool tie_word_embeddings = false;
  double norm_eps = 1e-6;
  const char* norm_eps_name = "rms_norm_eps";        // null: it is no entry, but the setting's standard value
  std::optional<double> partial_rotary_factor = {};  // empty: the class rotates whole heads
  std::optional<double> rope_local_base_freq = {};   // empty: all layers rotate alike
  const char* activation_name = "hidden_act";
  std::vector<nlohmann::json> activations = {"silu", "swish"};  // names of x * sigmoid(x)
};

// Names that transformers (ACT2FN) has for GELU with tanh.
std::vector<nlohmann::json> names_of_gelu_tanh();

// Returns the entries that all decoders have, followed by those of the family.
ConfigEntries decoder_config(const DecoderDefaults& defaults, const ConfigEntries& more);

// Returns the entries about windows of a class that has none, and passes over sliding_window.
ConfigEntry no_windows_entry();

// Returns true if a layer slides where layer_types is absent and windows are in use.
using SlidesByDefault = std::function<bool(SettingsReader& r, int64_t layer)>;
// The rule of Qwen: layers from max_window_layers on slide.
bool slides_from_max_window_layers(SettingsReader& r, int64_t layer);

// Returns the entries of a class whose use_sliding_window says that some layers slide: those of layer_types, or by default those
// that `slides` names. A window may be declared and not used. `window` is the default of sliding_window; null: none.
ConfigEntry chosen_windows_entry(const nlohmann::json& window, const SlidesByDefault& slides);

// Returns the entry of a class whose layers all slide unless sliding_window is null. `window` is its default.
ConfigEntry window_entry(const nlohmann::json& window);

// Returns the entries of a class whose layers slide as layer_types says, or by default as `slides` does, unless sliding_window is
// null. `window` is its default.
ConfigEntry layer_windows_entry(const nlohmann::json& window, const SlidesByDefault& slides);
// All layers slide; all but the last of each `sliding_window_pattern` layers, whose default is `pattern`.
bool all_slide(SettingsReader& r, int64_t layer);
SlidesByDefault slides_by_pattern(int64_t pattern);

// Returns the entry of a number that is not there, or null, for 0.
ConfigEntry optional_number_entry(const std::string& name, const nlohmann::json& where_absent);

}  // namespace genesis::models
