#include "models/families/decoder/gguf.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "models/config_sizes.h"

namespace genesis::models {

using nlohmann::json;

namespace {

// A list has a number for each layer, which is 0 for layers without attention.
void read_key_value_heads(SettingsReader& r) {
  if (const json& heads = r.get("attention.head_count_kv"); heads.is_array()) {
    json most = 0;
    for (const json& count : heads)
      if (count.is_number_integer() && count > most) most = count;
    if (most == 0) return r.refuse("attention.head_count_kv", "a positive number for some layer");
    return r.set("num_key_value_heads", most);
  }
  const bool is_there = r.has("attention.head_count_kv");
  r.copy_size(is_there ? "attention.head_count_kv" : "attention.head_count", "num_key_value_heads");
}

// A list has a number for each layer, which is 0 for layers without an MLP.
void read_feed_forward(SettingsReader& r) {
  const json& sizes = r.get("feed_forward_length");
  if (!sizes.is_array()) return r.copy_size("feed_forward_length", "intermediate_size");
  json most = 0;
  for (const json& size : sizes)
    if (size.is_number_integer() && size > most) most = size;
  if (most == 0) return r.refuse("feed_forward_length", "a positive number for some layer");
  r.set("intermediate_size", most);
}

void must_be_head_size(SettingsReader& r, const char* name) {
  if (r.has(name) && r.size("head_dim") > 0 && r.get(name) != r.size("head_dim"))
    r.refuse(name, fmt::format("the size of a head, {}", r.size("head_dim")));
}

void read_head_size(SettingsReader& r) {
  const int64_t hidden = r.size("hidden_size"), heads = r.size("num_attention_heads"),
                key_value_heads = r.size("num_key_value_heads");
  if (r.has("attention.key_length"))
    r.copy_size("attention.key_length", "head_dim");
  else if (hidden > 0 && heads > 0 && hidden % heads != 0)
    r.refuse("attention.head_count", fmt::format("a divisor of embedding_length, {}", hidden));
  else if (hidden > 0 && heads > 0)
    r.set("head_dim", hidden / heads);
  if (heads > 0 && key_value_heads > 0 && heads % key_value_heads != 0)
    r.refuse("attention.head_count_kv", fmt::format("a divisor of attention.head_count, {}", heads));
  must_be_head_size(r, "attention.value_length");
}

void read_whole_rotation(SettingsReader& r) { must_be_head_size(r, "rope.dimension_count"); }

// Sets the smallest factor whose product with the size of a head is the number of elements that rotate.
void read_partial_rotation(SettingsReader& r) {
  const int64_t head = r.size("head_dim"), rotating = r.integer("rope.dimension_count", head);
  if (head <= 0) return;
  if (rotating <= 0 || rotating > head)
    return r.refuse("rope.dimension_count", fmt::format("at most the size of a head, {}", head));
  double factor = static_cast<double>(rotating) / static_cast<double>(head);
  while (static_cast<int64_t>(static_cast<double>(head) * factor) < rotating)
    factor = std::nextafter(factor, 2.0);
  r.set("partial_rotary_factor", factor);
}

// Fills in what the file does not state as llama.cpp does. Its converter writes the attention factor of a config.json, and of
// Ministral 3 the multiplier of the logarithm that divides it.
void read_yarn(SettingsReader& r, double factor) {
  r.copy_size("rope.scaling.original_context_length", "rope_original_positions");
  const json& multiplier = r.get("rope.scaling.yarn_log_multiplier");
  const auto grown = [&](double by) { return factor > 1 ? 0.1 * by * std::log(factor) + 1 : 1; };
  const double divisor = multiplier.is_number() ? grown(multiplier.get<double>()) : 1;
  r.copy_number("rope.scaling.yarn_attn_factor", "rope_attention_factor", grown(1) / divisor);
  for (const char* name : {"beta_fast", "beta_slow"})
    if (const std::string key = fmt::format("rope.scaling.yarn_{}", name); r.has(key))
      r.copy_number(key, fmt::format("rope_{}", name));
  for (const char* name : {"attn_factor", "yarn_ext_factor"})
    if (const std::string key = fmt::format("rope.scaling.{}", name); r.has(key)) r.refuse(key, "none");
}

// A file of rotations without scaling may have all parameters of one.
void read_scaling(SettingsReader& r) {
  r.ignore({"rope.scaling.factor", "rope.scaling.original_context_length", "rope.scaling.finetuned"});
  const json& type = r.get("rope.scaling.type");
  if (type.is_null() || type == "none" || type == "longrope") return;  // longrope needs tensors
  if (type != "linear" && type != "yarn") return r.refuse("rope.scaling.type", "none, linear or yarn");
  r.set("rope_scaling", type);
  r.copy_number("rope.scaling.factor", "rope_factor");
  const json& factor = r.get("rope.scaling.factor");
  if (type == "yarn") read_yarn(r, factor.is_number() ? factor.get<double>() : 1);
}

void refuse_windows(SettingsReader& r) {
  if (r.has("attention.sliding_window")) r.refuse("attention.sliding_window", "none");
}

// Returns whether a layer has a window: by a list with a number or a byte for each layer, or by a pattern.
bool slides(const json& pattern, int64_t layer) {
  if (!pattern.is_number_integer()) return gguf_number_of_layer(pattern, layer) != 0;
  const int64_t period = pattern;
  return period == 0 || layer % period < period - 1;
}

bool is_pattern(const json& pattern, int64_t layers) {
  if (pattern.is_string()) return std::ssize(pattern.get_ref<const std::string&>()) >= layers;
  return pattern.is_array() ? std::ssize(pattern) >= layers : pattern.is_number_integer() && pattern >= 0;
}

void read_windows(SettingsReader& r, const GgufWindows& windows) {
  const json pattern = r.given("attention.sliding_window_pattern", windows.pattern),
             size = r.given("attention.sliding_window", windows.size);
  if (size == 0) return;
  r.copy_size("attention.sliding_window", "sliding_window", windows.size);
  if (pattern == 0) return;
  const int64_t layers = r.size("num_hidden_layers");
  if (!is_pattern(pattern, layers))
    return r.refuse("attention.sliding_window_pattern", "a number, or one for each layer");
  json types = json::array();
  for (int64_t layer = 0; layer < std::min(layers, kMaxLayers); ++layer)
    types.push_back(slides(pattern, layer) ? "sliding_attention" : "full_attention");
  if (std::ranges::find(types, "sliding_attention") == types.end()) return r.set("sliding_window", 0);
  r.set("layer_types", types);
}

ConfigEntry windows_entry(const std::optional<GgufWindows>& windows) {
  if (!windows) return {.settings = {"sliding_window"}, .read = refuse_windows};
  return {.settings = {"sliding_window", "layer_types"},
          .read = [windows = *windows](SettingsReader& r) { read_windows(r, windows); }};
}

ConfigEntry rotating_part_entry(bool is_partial) {
  if (!is_partial) return {.settings = {}, .read = read_whole_rotation};
  return {.settings = {"partial_rotary_factor"}, .read = read_partial_rotation};
}

ConfigEntries llama_metadata(const DecoderGguf& d) {
  return {size_entry("context_length", {}, "max_position_embeddings"),
          size_entry("embedding_length", {}, "hidden_size"),
          size_entry("block_count", {}, "num_hidden_layers"),
          {.settings = {"intermediate_size"}, .read = read_feed_forward},
          size_entry("attention.head_count", {}, "num_attention_heads"),
          {.settings = {"num_key_value_heads"}, .read = read_key_value_heads},
          number_entry(d.norm_eps, {}, "rms_norm_eps"),
          {.settings = {"head_dim"}, .read = read_head_size},
          number_entry("rope.freq_base", 10000.0, "rope_theta"),
          {.settings = {"rope_scaling"}, .read = read_scaling},
          windows_entry(d.windows),
          only_entry("attention.causal", {true}, false),
          ignored_entry({"tensor_data_layout", "pooling_type"})};
}

// Returns the entry of this setting among `entries`; null if there is none.
const ConfigEntry* entry_of(const ConfigEntries& entries, const std::string& setting) {
  const auto at =
      std::ranges::find_if(entries, [&](const ConfigEntry& e) { return e.settings.front() == setting; });
  return at == entries.end() ? nullptr : &*at;
}

ConfigEntries metadata(const DecoderGguf& d) {
  ConfigEntries entries = llama_metadata(d);
  for (ConfigEntry& entry : entries)
    if (const ConfigEntry* other = entry.settings.empty() ? nullptr : entry_of(d.instead, entry.settings[0]))
      entry = *other;
  if (!entry_of(d.instead, "head_dim")) entries.push_back(rotating_part_entry(d.rotates_parts));
  return joined(entries, d.more);
}

std::map<std::string, std::string> layers_of(const DecoderGguf& d) {
  std::map<std::string, std::string> layers = {
      {"attn_norm", "input_layernorm"},    {"attn_q", "self_attn.q_proj"},
      {"attn_k", "self_attn.k_proj"},      {"attn_v", "self_attn.v_proj"},
      {"attn_q_norm", "self_attn.q_norm"}, {"attn_k_norm", "self_attn.k_norm"},
      {"attn_output", "self_attn.o_proj"}, {"ffn_norm", "post_attention_layernorm"},
      {"ffn_gate", "mlp.gate_proj"},       {"ffn_up", "mlp.up_proj"},
      {"ffn_down", "mlp.down_proj"}};
  for (const auto& [name, in_zoo] : d.layers) layers[name] = in_zoo;
  std::erase_if(layers, [](const auto& layer) { return layer.second.empty(); });
  return layers;
}

}  // namespace

GgufForm decoder_gguf(const DecoderGguf& d) {
  GgufForm form{
      .architecture = d.architecture,
      .metadata = metadata(d),
      .blocks = d.blocks,
      .outside = {{"token_embd", "model.embed_tokens"}, {"output_norm", "model.norm"}, {"output", "lm_head"}},
      .inside = layers_of(d),
      .pre_tokenizer = d.pre_tokenizer,
      .mark = d.mark,
      .flags = d.flags,
      .fused = d.fused,
      .from_one = d.from_one,
      .ordered = d.ordered,
      .arranged = d.arranged,
      .other_architecture = d.other_architecture};
  if (d.rows_in_pairs) form.rows_in_pairs = {".self_attn.q_proj.weight", ".self_attn.k_proj.weight"};
  return form;
}

int64_t gguf_number_of_layer(const json& list, int64_t layer) {
  const auto at = static_cast<size_t>(layer);
  if (list.is_string()) {
    const auto& bytes = list.get_ref<const std::string&>();
    return at < bytes.size() ? bytes[at] : 0;
  }
  if (!list.is_array()) return list.is_number_integer() ? list.get<int64_t>() : 0;
  if (at >= list.size()) return 0;
  return list[at].is_boolean()          ? list[at].get<bool>()
         : list[at].is_number_integer() ? list[at].get<int64_t>()
                                        : 0;
}

ConfigEntry gguf_count_entry(const std::string& name, const std::string& setting) {
  return {.settings = {setting}, .read = [=](SettingsReader& r) {
            const int64_t value = r.integer(name, 0);
            if (value < 0) return r.refuse(name, "a number, 0 or more");
            r.set(setting, value);
          }};
}

ConfigEntry gguf_layers_entry() {
  return {.settings = {"num_hidden_layers"}, .read = [](SettingsReader& r) {
            r.copy_size("block_count", "num_hidden_layers");
            const int64_t further = r.integer("nextn_predict_layers", 0),
                          layers = r.size("num_hidden_layers");
            if (further < 0 || (layers > 0 && further >= layers))
              return r.refuse("nextn_predict_layers", "less than block_count");
            r.set("num_hidden_layers", layers - further);
          }};
}

ConfigEntry gemma_score_entry(int64_t layers_of_27b) {
  return {.settings = {"query_pre_attn_scalar"}, .read = [=](SettingsReader& r) {
            const int64_t heads = r.size("num_attention_heads");
            const bool is_27b = r.size("num_hidden_layers") == layers_of_27b && heads > 0;
            r.set("query_pre_attn_scalar", is_27b ? r.size("hidden_size") / heads : r.size("head_dim"));
          }};
}

}  // namespace genesis::models
