// Gemma 4, the text model (Google, 2026): as Gemma 3 with plain norms, also of values; heads of another size where attention is full;
// embeddings of each layer; last layers that read the keys and values of earlier ones; in the mixtures, experts beside the MLP.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "models/config_sizes.h"
#include "models/families/decoder/mixture_config.h"

namespace genesis::models {
namespace {

using nlohmann::json;

struct Gemma4Config : MixtureConfig {
  double final_logit_softcapping = 0;  // limit of logits; 0: none
  double rope_local_base_freq = 1e4;   // the base of the rotation in layers with a window
  // Heads of layers without a window; 0: as in the others.
  int64_t global_head_dim = 0, num_global_key_value_heads = 0;
  bool attention_k_eq_v =
      false;  // layers without a window have no v_proj: values are keys before norm and rotation
  int64_t num_kv_shared_layers =
      0;  // last layers that read the keys and values of the last other one of their kind
  bool use_double_wide_mlp = false;           // they have MLPs of twice the size
  int64_t hidden_size_per_layer_input = 256;  // size of the embeddings of each layer; 0: there are none
  int64_t vocab_size_per_layer_input = 0;     // rows of their table; 0: vocab_size

  static void fields(auto& self, auto&& visit) {
    MixtureConfig::fields(self, visit);
    visit("final_logit_softcapping", self.final_logit_softcapping);
    visit("rope_local_base_freq", self.rope_local_base_freq);
    visit("global_head_dim", self.global_head_dim);
    visit("num_global_key_value_heads", self.num_global_key_value_heads);
    visit("attention_k_eq_v", self.attention_k_eq_v);
    visit("num_kv_shared_layers", self.num_kv_shared_layers);
    visit("use_double_wide_mlp", self.use_double_wide_mlp);
    visit("hidden_size_per_layer_input", self.hidden_size_per_layer_input);
    visit("vocab_size_per_layer_input", self.vocab_size_per_layer_input);
  }
  bool slides(int64_t layer) const { return window_of(layer) > 0; }
  int64_t first_shared() const { return num_hidden_layers - num_kv_shared_layers; }
  // Returns the layer whose keys and values a layer reads; -1: its own.
  int64_t keys_of(int64_t layer) const {
    if (layer < first_shared()) return -1;
    int64_t source = first_shared() - 1;
    while (source >= 0 && slides(source) != slides(layer)) --source;
    return source;
  }
};

void check_heads(const std::string& family, const Gemma4Config& c) {
  check_size(family, "num_hidden_layers", c.num_hidden_layers, kMaxLayers);
  check_size(family, "num_attention_heads", c.num_attention_heads, kMaxHeads);
  check_size(family, "num_key_value_heads", c.num_key_value_heads, kMaxHeads);
  check_size(family, "hidden_size", c.hidden_size);
  check_size(family, "head_dim", c.head_size(), kMaxHeads);
  if (c.num_attention_heads % c.num_key_value_heads != 0 || c.head_size() % 2 != 0)
    fail("{}: {} heads of {} elements do not fit {} heads of keys: expected an even size, and a multiple",
         family, c.num_attention_heads, c.head_size(), c.num_key_value_heads);
  for (const auto& [name, value] : {std::pair("global_head_dim", c.global_head_dim),
                                    {"num_global_key_value_heads", c.num_global_key_value_heads}})
    if (value != 0) check_size(family, name, value, kMaxHeads);
}

void check_layers(const std::string& family, const Gemma4Config& c) {
  if (!c.layer_types.empty() && std::ssize(c.layer_types) != c.num_hidden_layers)
    fail("{}: layer_types has {} entries for {} layers", family, c.layer_types.size(), c.num_hidden_layers);
  if (c.num_kv_shared_layers < 0 || c.num_kv_shared_layers >= c.num_hidden_layers)
    fail("{}: num_kv_shared_layers is {}, expected 0 to {}: the first layer has keys and values of its own",
         family, c.num_kv_shared_layers, c.num_hidden_layers - 1);
  for (int64_t layer = c.first_shared(); layer < c.num_hidden_layers; ++layer)
    if (c.keys_of(layer) < 0)
      fail(
          "{}: layer {} has no keys and values, and none of the first {} layers has the same entry in "
          "layer_types: lessen num_kv_shared_layers",
          family, layer, c.first_shared());
}

void check_gemma4(const std::string& family, const Gemma4Config& c) {
  check_heads(family, c);
  check_layers(family, c);
  if (!(c.rope_local_base_freq > 0))
    fail("{}: rope_local_base_freq is {}, it must be positive", family, c.rope_local_base_freq);
  for (const auto& [name, value] : {std::pair("hidden_size_per_layer_input", c.hidden_size_per_layer_input),
                                    {"vocab_size_per_layer_input", c.vocab_size_per_layer_input},
                                    {"num_experts_per_tok", c.num_experts_per_tok},
                                    {"moe_intermediate_size", c.moe_intermediate_size}})
    if (value != 0) check_size(family, name, value);
}

ExpertsDesign experts_of(const std::string& family, const Gemma4Config& c) {
  ExpertsDesign experts{.count = 0};
  if (c.num_experts == 0) return experts;
  experts = c.experts(family);
  experts.normalized = true;
  experts.gelu = true;
  experts.module = nullptr;
  experts.router = "router.proj";
  experts.scaled_router = "router";
  experts.read_norm = "pre_feedforward_layernorm_2";
  experts.eps = c.rms_norm_eps;
  return experts;
}

std::unique_ptr<Model> make_gemma4(const std::string& family, const Gemma4Config& c, uint64_t seed) {
  check_gemma4(family, c);
  const ExpertsDesign experts = experts_of(family, c);
  const auto design_of = [&](int64_t layer) {
    const bool slides = c.slides(layer), is_shared = layer >= c.first_shared();
    return LayerDesign{.norms = kNormsAround,
                       .head_norms = HeadNorms::kPerHead,
                       .local_theta = slides ? c.rope_local_base_freq : 0,
                       .score_scale = 1,
                       .window = c.window_of(layer),
                       .head_size = slides ? c.head_size() : 0,
                       .key_value_heads = slides ? c.num_key_value_heads : 0,
                       .intermediate_size = is_shared && c.use_double_wide_mlp ? 2 * c.intermediate_size : 0,
                       .value_norms = true,
                       .values_are_keys = c.attention_k_eq_v && !slides,
                       .keys_of = c.keys_of(layer),
                       .mlp = MlpKind::kGeGlu,
                       .experts = experts,
                       .experts_beside_mlp = true};
  };
  // The rotation of the network is that of the layers without a window.
  DecoderConfig network = c;
  network.head_dim = c.global_head_dim > 0 ? c.global_head_dim : c.head_size();
  if (c.num_global_key_value_heads > 0) network.num_key_value_heads = c.num_global_key_value_heads;
  const int64_t rows = c.vocab_size_per_layer_input > 0 ? c.vocab_size_per_layer_input : c.vocab_size;
  return make_decoder(family, network, design_of, seed,
                      {.embedding_scale = std::sqrt(static_cast<double>(c.hidden_size)),
                       .logits_limit = c.final_logit_softcapping,
                       .layer_embedding_size = c.hidden_size_per_layer_input,
                       .layer_embedding_rows = rows,
                       .layer_scalars = true});
}

// The sizes of full layers: version 5.24 of transformers writes what is special about each layer, earlier files have two numbers.
constexpr const char *kByLayer = "per_layer_config", *kHeadSize = "global_head_dim",
                     *kHeads = "num_global_key_value_heads";

bool is_full(SettingsReader& r, const std::string& layer) {
  if (!r.settings().contains("layer_types")) return true;
  const json& types = r.settings().at("layer_types");
  for (size_t i = 0; i < types.size(); ++i)
    if (std::to_string(i) == layer) return types[i] == "full_attention";
  return types.empty();
}

// Returns the entry of the full layers, which must be alike.
json full_layers(SettingsReader& r) {
  const json& by_layer = r.get(kByLayer);
  json found;
  for (const auto& [layer, own] : by_layer.items()) {
    const bool is_known = own.is_object() && std::ranges::all_of(own.items(), [](const auto& entry) {
                            return entry.key() == "head_dim" || entry.key() == "num_key_value_heads";
                          });
    if (!is_known || !is_full(r, layer) || (!found.is_null() && found != own))
      r.add_problem(fmt::format(
          "{}.{}: {}; expected head_dim and num_key_value_heads, the same in all layers with full_attention",
          kByLayer, layer, r.shown(own)));
    found = own;
  }
  return found.is_object() ? found : json::object();
}

void read_full_layers(SettingsReader& r) {
  const bool equal_kv = r.get("attention_k_eq_v") == true;
  r.ignore({kHeadSize, kHeads, kByLayer});
  json size = r.given(kHeadSize, 512), heads = equal_kv ? r.get(kHeads) : json();
  if (r.get(kByLayer).is_object()) {
    const json own = full_layers(r);
    size = own.value("head_dim", json());
    heads = own.value("num_key_value_heads", json());
  }
  for (const auto& [name, value] : {std::pair(kHeadSize, size), {kHeads, heads}})
    if (value.is_null())
      r.set(name, 0);
    else if (!value.is_number_integer() || value < 1)
      r.add_problem(fmt::format("{}: {}, expected a size", name, r.shown(value)));
    else
      r.set(name, value);
}

void write_full_layers(const json& settings, json& config) {
  json own = json::object();
  for (const auto& [name, setting] : {std::pair("head_dim", kHeadSize), {"num_key_value_heads", kHeads}})
    if (settings.at(setting) != 0) own[name] = settings.at(setting);
  config[kByLayer] = json::object();
  const json& types = settings.at("layer_types");
  const int64_t layers = std::clamp<int64_t>(settings.at("num_hidden_layers"), 0, kMaxLayers);
  for (int64_t i = 0; i < layers && !own.empty(); ++i)
    if (types.empty() || types.at(static_cast<size_t>(i)) == "full_attention")
      config[kByLayer][std::to_string(i)] = own;
}

ConfigEntry full_layers_entry() {
  return {
      .settings = {kHeadSize, kHeads, "layer_types", "head_dim", "num_key_value_heads", "num_hidden_layers"},
      .read = read_full_layers,
      .write = write_full_layers,
      .replaces = {kByLayer, kHeadSize, kHeads},
      .normalize = [](json& settings) {
        if (settings.at(kHeadSize) == settings.at("head_dim")) settings[kHeadSize] = 0;
        if (settings.at(kHeads) == settings.at("num_key_value_heads")) settings[kHeads] = 0;
      }};
}

void read_experts(SettingsReader& r) {
  const bool has_experts = r.given("enable_moe_block", false) == true;
  r.ignore({"num_experts", "top_k_experts", "moe_intermediate_size"});
  r.set("num_experts", 0);
  if (!has_experts) return;
  r.copy_size("num_experts", "num_experts");
  r.copy_size("top_k_experts", "num_experts_per_tok");
  r.copy_size("moe_intermediate_size", "moe_intermediate_size");
}

void write_experts(const json& settings, json& config) {
  const bool has_experts = settings.at("num_experts") != 0;
  const json& size = settings.at("moe_intermediate_size");
  config["enable_moe_block"] = has_experts;
  config["num_experts"] = has_experts ? settings.at("num_experts") : json();
  config["top_k_experts"] = has_experts ? settings.at("num_experts_per_tok") : json();
  config["moe_intermediate_size"] = !has_experts ? json()
                                    : size == 0  ? settings.at("intermediate_size")
                                                 : size;
}

ConfigEntry gemma4_experts_entry() {
  return {.settings = {"num_experts", "num_experts_per_tok", "moe_intermediate_size"},
          .read = read_experts,
          .write = write_experts,
          .normalize = [](json& settings) {
            if (settings.at("num_experts") != 0) return;
            settings["num_experts_per_tok"] = 2;
            settings["moe_intermediate_size"] = 0;
          }};
}

// These losses are not in config.json.
ConfigEntry router_losses_entry() {
  return {.settings = {"router_aux_loss_coef", "output_router_logits", "router_z_loss_coef"},
          .read =
              [](SettingsReader& r) {
                r.ignore({"router_aux_loss_coef", "output_router_logits"});
              },
          .changes_results = false};
}

// A file without rope_parameters means the rotation of the family; one that has them may mean a plain one.
ConfigEntry plain_rotation_entry() {
  return {.settings = {}, .read = [](SettingsReader& r) {
            if (r.has("rope_parameters") && !r.settings().contains("rope_scaling"))
              r.set("rope_scaling", "none");
          }};
}

// The last layer sees all tokens, whatever a file says.
ConfigEntry gemma4_windows_entry() {
  ConfigEntry entry = layer_windows_entry(512, [](SettingsReader& r, int64_t layer) {
    return (layer + 1) % 6 != 0 && layer + 1 != r.size("num_hidden_layers");
  });
  entry.read = [read = entry.read](SettingsReader& r) {
    read(r);
    json types = r.settings().contains("layer_types") ? r.settings().at("layer_types") : json::array();
    if (types.empty()) return;
    types.back() = "full_attention";
    const bool slides = std::ranges::find(types, json("sliding_attention")) != types.end();
    r.set("layer_types", slides ? types : json::array());
    if (!slides) r.set("sliding_window", 0);
  };
  entry.write = [write = entry.write](const json& settings, json& config) {
    write(settings, config);
    if (config["sliding_window"].is_null()) config["sliding_window"] = 512;  // the class takes no null
  };
  return entry;
}

ConfigEntry layer_rows_entry() {
  ConfigEntry entry = size_entry("vocab_size_per_layer_input", 262144);
  entry.settings.insert(entry.settings.end(), {"vocab_size", "hidden_size_per_layer_input"});
  entry.read = [read = entry.read](SettingsReader& r) {
    read(r);
    if (r.size("vocab_size_per_layer_input") == r.size("vocab_size")) r.set("vocab_size_per_layer_input", 0);
  };
  entry.write = [](const json& settings, json& config) {
    const json& rows = settings.at("vocab_size_per_layer_input");
    config["vocab_size_per_layer_input"] = rows == 0 ? settings.at("vocab_size") : rows;
  };
  entry.normalize = [](json& settings) {
    json& rows = settings["vocab_size_per_layer_input"];
    if (rows == settings.at("vocab_size") || settings.at("hidden_size_per_layer_input") == 0) rows = 0;
  };
  return entry;
}

ConfigEntries gemma4_entries() {
  return {optional_number_entry("final_logit_softcapping", nullptr),
          gemma4_windows_entry(),
          flag_entry("attention_k_eq_v", false),
          full_layers_entry(),
          whole_number_entry("num_kv_shared_layers", 0, true),
          flag_entry("use_double_wide_mlp", false),
          whole_number_entry("hidden_size_per_layer_input", 256, true),
          layer_rows_entry(),
          gemma4_experts_entry(),
          router_losses_entry(),
          plain_rotation_entry(),
          only_entry("attention_bias", {false}, true),
          only_entry("use_bidirectional_attention", {nullptr, "vision"}, false),
          ignored_entry({"hidden_act", "cache_implementation"})};
}

// Heads of layers with a window, and of the others. Metadata with _swa are those of the former.
void read_gguf_heads(SettingsReader& r) {
  r.copy_size("attention.key_length_swa", "head_dim");
  r.copy_size("attention.key_length", kHeadSize);
  r.ignore({"attention.value_length", "attention.value_length_swa", "rope.dimension_count",
            "rope.dimension_count_swa"});
  if (r.size(kHeadSize) == r.size("head_dim")) r.set(kHeadSize, 0);
}

void read_gguf_key_heads(SettingsReader& r) {
  const json& counts = r.get("attention.head_count_kv");
  const json& slides = r.get("attention.sliding_window_pattern");
  int64_t of_windows = 0, of_full = 0;
  for (int64_t layer = 0; layer < std::min(r.size("num_hidden_layers"), kMaxLayers); ++layer)
    (gguf_number_of_layer(slides, layer) != 0 ? of_windows : of_full) = gguf_number_of_layer(counts, layer);
  if (of_windows == 0) of_windows = of_full;
  if (of_windows <= 0) return r.refuse("attention.head_count_kv", "positive numbers");
  r.set("num_key_value_heads", of_windows);
  r.set(kHeads, of_full == of_windows ? 0 : of_full);
}

// The MLPs of layers that share keys may be twice as wide.
void read_gguf_mlps(SettingsReader& r) {
  const json& sizes = r.get("feed_forward_length");
  const int64_t first = gguf_number_of_layer(sizes, 0),
                last = gguf_number_of_layer(sizes, r.size("num_hidden_layers") - 1);
  if (first <= 0 || (last != first && last != 2 * first))
    return r.refuse("feed_forward_length", "a size, which may double in the last layers");
  r.set("intermediate_size", first);
  r.set("use_double_wide_mlp", last != first);
}

ConfigEntries gguf_entries() {
  const ConfigEntry experts{.settings = {"num_experts"}, .read = [](SettingsReader& r) {
                              r.set("num_experts", r.integer("expert_count", 0));
                              r.ignore({"expert_used_count", "expert_feed_forward_length"});
                              if (r.size("num_experts") <= 0) return;
                              r.copy_size("expert_used_count", "num_experts_per_tok");
                              r.copy_size("expert_feed_forward_length", "moe_intermediate_size");
                            }};
  return {number_entry("rope.freq_base_swa", 10000.0, "rope_local_base_freq"),
          gguf_count_entry("attention.shared_kv_layers", "num_kv_shared_layers"),
          gguf_count_entry("embedding_length_per_layer_input", "hidden_size_per_layer_input"),
          number_entry("final_logit_softcapping", 0.0), experts};
}

std::map<std::string, std::string> gguf_layers() {
  return {{"post_attention_norm", "post_attention_layernorm"},
          {"ffn_norm", "pre_feedforward_layernorm"},
          {"post_ffw_norm", "post_feedforward_layernorm"},
          {"post_ffw_norm_1", "post_feedforward_layernorm_1"},
          {"post_ffw_norm_2", "post_feedforward_layernorm_2"},
          {"pre_ffw_norm_2", "pre_feedforward_layernorm_2"},
          {"layer_output_scale.weight", "layer_scalar"},
          {"inp_gate", "per_layer_input_gate"},
          {"proj", "per_layer_projection"},
          {"post_norm", "post_per_layer_input_norm"},
          {"ffn_gate_inp", "router.proj"},
          {"ffn_gate_inp.scale", "router.scale"},
          {"ffn_gate_up_exps", "experts.gate_up_proj"},
          {"ffn_gate_exps", "experts.gate_proj"},
          {"ffn_up_exps", "experts.up_proj"},
          {"ffn_down_exps", "experts.down_proj"},
          {"ffn_down_exps.scale", "router.per_expert_scale"}};
}

GgufForm gguf_form() {
  GgufForm form =
      decoder_gguf({.architecture = "gemma4",
                    .windows = GgufWindows{.size = 512, .pattern = 6},
                    .layers = gguf_layers(),
                    .more = gguf_entries(),
                    .fused = {kFusedExperts},
                    .instead = {{.settings = {"intermediate_size"}, .read = read_gguf_mlps},
                                {.settings = {"num_key_value_heads"}, .read = read_gguf_key_heads},
                                {.settings = {"head_dim"}, .read = read_gguf_heads}}});
  form.outside.insert({{"per_layer_token_embd", "model.embed_tokens_per_layer"},
                       {"per_layer_model_proj", "model.per_layer_model_projection"},
                       {"per_layer_proj_norm", "model.per_layer_projection_norm"}});
  // A layer with keys and no values takes the keys for them.
  form.adapt = [](json& settings, const std::function<bool(const std::string& name)>& has) {
    const int64_t layers = std::min(settings.value("num_hidden_layers", int64_t{0}), kMaxLayers);
    bool are_keys = false;
    for (int64_t i = 0; i < layers; ++i)
      are_keys |= has(fmt::format("blk.{}.attn_k.weight", i)) && !has(fmt::format("blk.{}.attn_v.weight", i));
    settings["attention_k_eq_v"] = are_keys;
  };
  return form;
}

}  // namespace

Family gemma4_family() {
  Gemma4Config standard;
  standard.num_experts = 0;
  standard.rope_theta = 1e6;
  standard.rope_scaling = {.kind = nn::RopeScalingKind::kProportional, .proportion = 0.25};
  standard.tie_word_embeddings = true;
  return {
      .name = "gemma4",
      .summary =
          "Gemma 4 language model: embeddings of each layer, shared keys, heads by kind of layer, "
          "experts beside the MLP by setting",
      .network = make_network(standard, make_gemma4),
      .hugging_face = HuggingFaceForm{.model_type = "gemma4_text",
                                      .class_name = "Gemma4ForCausalLM",
                                      .config = decoder_config({.vocab_size = 262144,
                                                                .hidden_size = 2304,
                                                                .intermediate_size = 9216,
                                                                .num_hidden_layers = 30,
                                                                .num_attention_heads = 8,
                                                                .num_key_value_heads = 4,
                                                                .head_dim = 256,
                                                                .max_position_embeddings = 131072,
                                                                .rope_theta = 1e6,
                                                                .tie_word_embeddings = true,
                                                                .rope_local_base_freq = 1e4,
                                                                .activation_name = "hidden_activation",
                                                                .activations = names_of_gelu_tanh()},
                                                               gemma4_entries()),
                                      .fused = {{".experts.gate_up_proj",
                                                 {".experts.gate_proj.weight", ".experts.up_proj.weight"}},
                                                {".experts.down_proj", {".experts.down_proj.weight"}}}},
      .gguf = gguf_form()};
}

}  // namespace genesis::models
