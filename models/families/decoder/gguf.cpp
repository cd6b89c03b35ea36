#include "models/families/decoder/gguf.h"

#include <fmt/format.h>

#include <cmath>

namespace genesis::models {

using nlohmann::json;

namespace {

void read_key_value_heads(SettingsReader& r) {
  const bool is_there = r.has("attention.head_count_kv");
  r.copy_size(is_there ? "attention.head_count_kv" : "attention.head_count", "num_key_value_heads");
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
  for (const char* name : {"attention.value_length", "rope.dimension_count"}) must_be_head_size(r, name);
}

// Fills in what the file does not state as llama.cpp does.
void read_yarn(SettingsReader& r, double factor) {
  r.copy_size("rope.scaling.original_context_length", "rope_original_positions");
  r.set("rope_attention_factor", factor > 1 ? 0.1 * std::log(factor) + 1 : 1);
  for (const char* name : {"beta_fast", "beta_slow"})
    if (const std::string key = fmt::format("rope.scaling.yarn_{}", name); r.has(key))
      r.copy_number(key, fmt::format("rope_{}", name));
  for (const char* name : {"attn_factor", "yarn_ext_factor", "yarn_attn_factor", "yarn_log_multiplier"})
    if (const std::string key = fmt::format("rope.scaling.{}", name); r.has(key)) r.refuse(key, "none");
}

// A file of rotations without scaling may have all parameters of one.
void read_scaling(SettingsReader& r) {
  r.ignore({"rope.scaling.factor", "rope.scaling.original_context_length", "rope.scaling.finetuned"});
  const json& type = r.get("rope.scaling.type");
  if (type.is_null() || type == "none") return;
  if (type != "linear" && type != "yarn") return r.refuse("rope.scaling.type", "none, linear or yarn");
  r.set("rope_scaling", type);
  r.copy_number("rope.scaling.factor", "rope_factor");
  const json& factor = r.get("rope.scaling.factor");
  if (type == "yarn") read_yarn(r, factor.is_number() ? factor.get<double>() : 1);
}

void refuse_windows(SettingsReader& r) {
  if (r.has("attention.sliding_window")) r.refuse("attention.sliding_window", "none");
}

ConfigEntries metadata() {
  return {size_entry("context_length", {}, "max_position_embeddings"),
          size_entry("embedding_length", {}, "hidden_size"),
          size_entry("block_count", {}, "num_hidden_layers"),
          size_entry("feed_forward_length", {}, "intermediate_size"),
          size_entry("attention.head_count", {}, "num_attention_heads"),
          {.settings = {"num_key_value_heads"}, .read = read_key_value_heads},
          number_entry("attention.layer_norm_rms_epsilon", {}, "rms_norm_eps"),
          {.settings = {"head_dim"}, .read = read_head_size},
          number_entry("rope.freq_base", 10000.0, "rope_theta"),
          {.settings = {"rope_scaling"}, .read = read_scaling},
          {.settings = {"sliding_window"}, .read = refuse_windows},
          only_entry("attention.causal", {true}, false),
          ignored_entry({"tensor_data_layout", "pooling_type"})};
}

}  // namespace

GgufForm decoder_gguf(const std::string& architecture, const std::string& pre_tokenizer, bool rows_in_pairs) {
  GgufForm form{
      .architecture = architecture,
      .metadata = metadata(),
      .blocks = "model.layers.",
      .outside = {{"token_embd", "model.embed_tokens"}, {"output_norm", "model.norm"}, {"output", "lm_head"}},
      .inside = {{"attn_norm", "input_layernorm"},
                 {"attn_q", "self_attn.q_proj"},
                 {"attn_k", "self_attn.k_proj"},
                 {"attn_v", "self_attn.v_proj"},
                 {"attn_q_norm", "self_attn.q_norm"},
                 {"attn_k_norm", "self_attn.k_norm"},
                 {"attn_output", "self_attn.o_proj"},
                 {"ffn_norm", "post_attention_layernorm"},
                 {"ffn_gate", "mlp.gate_proj"},
                 {"ffn_up", "mlp.up_proj"},
                 {"ffn_down", "mlp.down_proj"}}};
  if (rows_in_pairs) form.rows_in_pairs = {".self_attn.q_proj.weight", ".self_attn.k_proj.weight"};
  form.pre_tokenizer = pre_tokenizer;
  return form;
}

}  // namespace genesis::models
