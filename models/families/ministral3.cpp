// Ministral 3 (Mistral AI, 2025): a Mistral with YaRN, whose queries grow with their position as in Llama 4.
#include "models/families/decoder/family.h"

namespace genesis::models {
namespace {

using nlohmann::json;

struct Ministral3Config : DecoderConfig {
  double llama_4_scaling_beta = 0;  // growth of queries beyond the positions of the training (YaRN); 0: none

  static void fields(auto& self, auto&& visit) {
    DecoderConfig::fields(self, visit);
    visit("llama_4_scaling_beta", self.llama_4_scaling_beta);
  }
};

std::unique_ptr<Model> make_ministral3(const std::string& family, const Ministral3Config& c, uint64_t seed) {
  if (c.llama_4_scaling_beta != 0 && c.rope_scaling.original_positions <= 0)
    fail(
        "{}: llama_4_scaling_beta is {}, but rope_original_positions is {}: set how long the texts were that "
        "the "
        "model was trained on",
        family, c.llama_4_scaling_beta, c.rope_scaling.original_positions);
  const auto design_of = [&](int64_t layer) {
    return LayerDesign{.temperature_beta = c.llama_4_scaling_beta, .window = c.window_of(layer)};
  };
  return make_decoder(family, c, design_of, seed);
}

// Sets what the class takes where no parameters are given.
void set_standard(SettingsReader& r) {
  const std::pair<const char*, json> standard[] = {{"rope_theta", 1e6},
                                                   {"rope_scaling", "yarn"},
                                                   {"rope_factor", 16.0},
                                                   {"rope_beta_fast", 32.0},
                                                   {"rope_beta_slow", 1.0},
                                                   {"rope_original_positions", 16384},
                                                   {"rope_attention_factor", 1.0},
                                                   {"llama_4_scaling_beta", 0.1}};
  for (const auto& [setting, value] : standard) r.set(setting, value);
}

void read_growth(SettingsReader& r) {
  const json& rope = r.has("rope_parameters") ? r.get("rope_parameters") : r.get("rope_scaling");
  if (!rope.is_object()) return set_standard(r);
  const json beta = rope.value("llama_4_scaling_beta", json());
  r.copy_number_of(beta, "rope_parameters.llama_4_scaling_beta", "llama_4_scaling_beta");
  if (beta != 0 && r.settings().value("rope_scaling", json()) != "yarn")
    r.add_problem("rope_parameters.llama_4_scaling_beta: " + r.shown(beta) + " without YaRN");
}

// Writes it beside the parameters of the scaling, which are written before.
void write_growth(const json& settings, json& config) {
  json& rope = config[config.value("rope_scaling", json()).is_object() ? "rope_scaling" : "rope_parameters"];
  if (!rope.is_object()) rope = {{"rope_type", "default"}, {"rope_theta", settings.at("rope_theta")}};
  rope["llama_4_scaling_beta"] = settings.at("llama_4_scaling_beta");
  if (!rope.contains("original_max_position_embeddings"))
    rope["original_max_position_embeddings"] = settings.at("max_position_embeddings");
}

}  // namespace

Family ministral3_family() {
  Ministral3Config standard;
  standard.rms_norm_eps = 1e-5;
  ConfigEntry growth{.settings = {"llama_4_scaling_beta"}, .read = read_growth, .write = write_growth};
  nn::RopeScaling::fields(standard.rope_scaling,
                          [&](const char* name, const auto&) { growth.settings.emplace_back(name); });
  return {.name = "ministral3",
          .summary = "Ministral 3 language model: as mistral, with queries that grow with their position",
          .network = make_network(standard, make_ministral3),
          .hugging_face = HuggingFaceForm{.model_type = "ministral3",
                                          .class_name = "Ministral3ForCausalLM",
                                          .config = decoder_config({.vocab_size = 131072,
                                                                    .intermediate_size = 14336,
                                                                    .num_hidden_layers = 34,
                                                                    .num_key_value_heads = 8,
                                                                    .head_dim = 128,
                                                                    .max_position_embeddings = 262144,
                                                                    .norm_eps = 1e-5},
                                                                   {growth, window_entry(nullptr)})},
          .gguf = decoder_gguf(
              {.architecture = "mistral3",
               .pre_tokenizer = "tekken",
               .rows_in_pairs = true,
               .more = {number_entry("attention.temperature_scale", 0.0, "llama_4_scaling_beta")}})};
}

}  // namespace genesis::models
