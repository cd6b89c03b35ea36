// Decoders with latent attention in GGUF files. llama.cpp's converter separates kv_b_proj into the matrices of keys, which it
// transposes, and those of values; older files hold it as it is.
#include <fmt/format.h>

#include <cmath>

#include "models/families/decoder/latent_config.h"
#include "models/reordered_rows.h"

namespace genesis::models {
namespace {

using nlohmann::json;

// Returns [heads * (keys + values), rank] of k_b [heads, rank, keys] and v_b [heads, values, rank].
Tensor joined_by_head(const json& settings, const std::vector<Tensor>& parts) {
  const int64_t heads = settings.at("num_attention_heads"), keys = settings.at("qk_nope_head_dim"),
                values = settings.at("v_head_dim");
  // A file may state any sizes: the list of rows is made when the tensors have them.
  const Shape &k = parts[0].type().shape, &v = parts[1].type().shape;
  const bool fits =
      k.rank() == 3 && v == Shape{heads, values, k[1]} && k[0].value() == heads && k[2].value() == keys;
  if (!fits)
    fail(
        "its parts are {} and {}, expected {} heads of {} keys and of {} values by the sizes in the metadata",
        k.to_string(), v.to_string(), heads, keys, values);
  std::vector<int64_t> rows;
  for (int64_t head = 0; head < heads; ++head) {
    for (int64_t i = 0; i < keys; ++i) rows.push_back(head * keys + i);
    for (int64_t i = 0; i < values; ++i) rows.push_back(heads * keys + head * values + i);
  }
  return rows_in_order({transposed_matrices(parts[0]), parts[1]}, rows);
}

// Files say the sizes of the compressed heads, and those of a head with _mla; older ones have the latter under the names of the former.
void read_heads(SettingsReader& r) {
  r.copy_size("attention.kv_lora_rank", "kv_lora_rank");
  r.set("q_lora_rank", 0);
  if (r.integer("attention.q_lora_rank", 0) != 0) r.copy_size("attention.q_lora_rank", "q_lora_rank");
  const bool is_new = r.has("attention.key_length_mla");
  const char *key = is_new ? "attention.key_length_mla" : "attention.key_length",
             *value = is_new ? "attention.value_length_mla" : "attention.value_length";
  r.ignore({"attention.key_length", "attention.value_length"});
  r.copy_size("rope.dimension_count", "qk_rope_head_dim");
  r.copy_size(value, "v_head_dim");
  const int64_t rotating = r.size("qk_rope_head_dim"), whole = r.integer(key, 0);
  if (whole <= rotating) return r.refuse(key, fmt::format("more than rope.dimension_count, {}", rotating));
  r.set("qk_nope_head_dim", whole - rotating);
  r.set("head_dim", rotating);
}

// The cache has one head; all heads have keys of their own.
void read_key_heads(SettingsReader& r) {
  r.ignore({"attention.head_count_kv"});
  r.set("num_key_value_heads", r.size("num_attention_heads"));
}

// The converter divides the multiplier by 10, and does not say how the rotation itself grows: both are equal in all models of this
// kind, which cancels it.
void read_growth(SettingsReader& r) {
  if (r.settings().value("rope_scaling", json()) != "yarn") return;
  const json& multiplier = r.get("rope.scaling.yarn_log_multiplier");
  const double growth =
      multiplier.is_number() ? static_cast<double>(static_cast<float>(10 * multiplier.get<double>())) : 0;
  r.set("rope_mscale_all_dim", std::round(growth * 1e6) / 1e6);
  r.set("rope_attention_factor", 1.0);
}

}  // namespace

DecoderGguf latent_gguf(const std::string& mark) {
  const std::string kv = ".self_attn.kv_b_proj.weight", k = ".self_attn.k_b_proj.weight",
                    v = ".self_attn.v_b_proj.weight";
  std::map<std::string, std::string> layers = {{"attn_q_a", "self_attn.q_a_proj"},
                                               {"attn_q_a_norm", "self_attn.q_a_layernorm"},
                                               {"attn_q_b", "self_attn.q_b_proj"},
                                               {"attn_kv_a_mqa", "self_attn.kv_a_proj_with_mqa"},
                                               {"attn_kv_a_norm", "self_attn.kv_a_layernorm"},
                                               {"attn_kv_b", "self_attn.kv_b_proj"},
                                               {"attn_k_b", "self_attn.k_b_proj"},
                                               {"attn_v_b", "self_attn.v_b_proj"},
                                               {"exp_probs_b.bias", "mlp.gate.e_score_correction_bias"}};
  return {.architecture = "deepseek2",
          .pre_tokenizer = "deepseek-v3",
          .layers = layers,
          .more = {{.settings = {"rope_mscale_all_dim"}, .read = read_growth}},
          .mark = mark,
          .arranged = {{kv, {k, v}, joined_by_head}},
          .instead = {gguf_layers_entry(),
                      {.settings = {"num_key_value_heads"}, .read = read_key_heads},
                      {.settings = {"head_dim"}, .read = read_heads}}};
}

}  // namespace genesis::models
