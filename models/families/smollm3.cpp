// SmolLM3 (Hugging Face, 2025): a Llama in which every fourth layer does not rotate queries and keys, as in Yang et al., "RoPE to
// NoPE and back again" (2025).
#include <algorithm>

#include "models/config_sizes.h"
#include "models/families/decoder/family.h"

namespace genesis::models {
namespace {

using nlohmann::json;

constexpr int64_t kInterval = 4;

struct SmolLm3Config : DecoderConfig {
  std::vector<int64_t> no_rope_layers = {};    // by layer: 1 rotates, 0 does not; empty: by the interval
  int64_t no_rope_layer_interval = kInterval;  // the last layer of each interval does not rotate

  static void fields(auto& self, auto&& visit) {
    DecoderConfig::fields(self, visit);
    visit("no_rope_layers", self.no_rope_layers);
    visit("no_rope_layer_interval", self.no_rope_layer_interval);
  }
};

bool rotates(const std::vector<int64_t>& listed, int64_t interval, int64_t layer) {
  return listed.empty() ? (layer + 1) % interval != 0 : listed[static_cast<size_t>(layer)] != 0;
}

std::unique_ptr<Model> make_smollm3(const std::string& family, const SmolLm3Config& c, uint64_t seed) {
  check_size(family, "no_rope_layer_interval", c.no_rope_layer_interval);
  if (!c.no_rope_layers.empty() && std::ssize(c.no_rope_layers) != c.num_hidden_layers)
    fail("{}: no_rope_layers has {} entries for {} layers", family, c.no_rope_layers.size(),
         c.num_hidden_layers);
  const auto design_of = [&](int64_t layer) {
    const bool rotary = rotates(c.no_rope_layers, c.no_rope_layer_interval, layer);
    return LayerDesign{.rotation = rotary ? RotationKind::kRotary : RotationKind::kNone,
                       .window = c.window_of(layer)};
  };
  return make_decoder(family, c, design_of, seed);
}

// A list may go on behind the last layer.
void read_layers(SettingsReader& r) {
  r.copy_size("no_rope_layer_interval", "no_rope_layer_interval", kInterval);
  const json& listed = r.get("no_rope_layers");
  if (listed.is_null()) return;
  const int64_t layers = r.size("num_hidden_layers");
  const auto is_flag = [](const json& item) { return item == 0 || item == 1; };
  if (!listed.is_array() || std::ssize(listed) < layers || !std::ranges::all_of(listed, is_flag))
    return r.refuse("no_rope_layers", "0 or 1 for each layer");
  r.set("no_rope_layers", std::vector<json>(listed.begin(), listed.begin() + layers));
}

// Returns the entries that an interval means. `layers` may be any number, because a file may lie.
json listed_by(int64_t interval, int64_t layers) {
  json listed = json::array();
  for (int64_t layer = 0; interval > 0 && layer < std::min(layers, kMaxLayers); ++layer)
    listed.push_back(rotates({}, interval, layer) ? 1 : 0);
  return listed;
}

// Lists all layers, since a list and an interval may mean the same.
void normalize_layers(json& settings) {
  json &listed = settings["no_rope_layers"], &interval = settings["no_rope_layer_interval"];
  if (listed.empty()) listed = listed_by(interval, settings.at("num_hidden_layers"));
  interval = kInterval;
}

void write_layers(const json& settings, json& config) {
  const json& listed = settings.at("no_rope_layers");
  config["no_rope_layers"] =
      listed == listed_by(kInterval, settings.at("num_hidden_layers")) ? json() : listed;
  config["no_rope_layer_interval"] = kInterval;
}

}  // namespace

Family smollm3_family() {
  SmolLm3Config standard;
  standard.rope_theta = 2e6;
  standard.tie_word_embeddings = true;
  const ConfigEntry rotations{.settings = {"no_rope_layers", "no_rope_layer_interval"},
                              .read = read_layers,
                              .write = write_layers,
                              .replaces = {"no_rope_layers", "no_rope_layer_interval"},
                              .normalize = normalize_layers};
  const auto slides = [](SettingsReader& r, int64_t layer) {
    const auto listed = r.settings().find("no_rope_layers");
    if (listed != r.settings().end()) return listed->at(static_cast<size_t>(layer)) == 0;
    return !rotates({}, std::max<int64_t>(1, r.size("no_rope_layer_interval")), layer);
  };
  return {
      .name = "smollm3",
      .summary = "SmolLM3 language model: as llama, without rotation in every fourth layer",
      .network = make_network(standard, make_smollm3),
      .hugging_face =
          HuggingFaceForm{.model_type = "smollm3",
                          .class_name = "SmolLM3ForCausalLM",
                          .config = decoder_config({.vocab_size = 128256,
                                                    .hidden_size = 2048,
                                                    .num_hidden_layers = 36,
                                                    .num_attention_heads = 16,
                                                    .num_key_value_heads = 4,
                                                    .max_position_embeddings = 32768,
                                                    .rope_theta = 2e6,
                                                    .tie_word_embeddings = true},
                                                   {only_entry("attention_bias", {false}, true),
                                                    only_entry("mlp_bias", {false}, true), rotations,
                                                    chosen_windows_entry(nullptr, slides)})},
      .gguf = decoder_gguf({.architecture = "smollm3", .pre_tokenizer = "llama-bpe", .rows_in_pairs = true})};
}

}  // namespace genesis::models
