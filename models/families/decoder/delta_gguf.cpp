// Decoders with the gated delta rule in GGUF files. llama.cpp's converter separates in_proj_qkvz, whose rows are sorted by key head,
// and, where each input has a product of its own, lets the value heads of a key head stand apart: value head j of key head k is head
// j * key heads + k.
#include <fmt/format.h>

#include <algorithm>

#include "models/config_sizes.h"
#include "models/families/decoder/delta_config.h"
#include "models/reordered_rows.h"

namespace genesis::models {
namespace {

using nlohmann::json;

struct DeltaSizes {
  int64_t key_heads, values_per_key, key_size, value_size;

  explicit DeltaSizes(const json& settings)
      : key_heads(settings.at("linear_num_key_heads")),
        values_per_key(settings.at("linear_num_value_heads").get<int64_t>() / key_heads),
        key_size(settings.at("linear_key_head_dim")),
        value_size(settings.at("linear_value_head_dim")) {}
};

// A file may state any sizes: a list of rows or columns is made when the matrices have as many. Each value head has `of_value` of them,
// each key head `of_key`.
void expect_count(const DeltaSizes& s, double of_value, double of_key, const std::vector<Tensor>& matrices,
                  int axis) {
  int64_t found = 0;
  for (const Tensor& matrix : matrices) {
    const Shape& shape = matrix.type().shape;
    if (shape.rank() != 2) fail("a tensor of it has the shape {}, expected a matrix", shape.to_string());
    found += shape[axis].value();
  }
  const double expected =
      static_cast<double>(s.key_heads) * (static_cast<double>(s.values_per_key) * of_value + of_key);
  if (static_cast<double>(found) != expected)
    fail("there are {} {}, expected {:.0f} by the sizes in the metadata", found,
         axis == 0 ? "rows" : "columns", expected);
}

void append(std::vector<int64_t>& rows, int64_t first, int64_t count) {
  for (int64_t i = 0; i < count; ++i) rows.push_back(first + i);
}

// Appends the rows of all value heads, of `size` rows each, in the order of the zoo.
void append_values(std::vector<int64_t>& rows, const DeltaSizes& s, int64_t first, int64_t size) {
  for (int64_t k = 0; k < s.key_heads; ++k)
    for (int64_t j = 0; j < s.values_per_key; ++j) append(rows, first + (j * s.key_heads + k) * size, size);
}

std::vector<int64_t> values_in_order(const json& settings) {
  const DeltaSizes s(settings);
  std::vector<int64_t> rows;
  append_values(rows, s, 0, s.value_size);
  return rows;
}

std::vector<int64_t> heads_in_order(const json& settings) {
  std::vector<int64_t> rows;
  append_values(rows, DeltaSizes(settings), 0, 1);
  return rows;
}

std::vector<int64_t> inputs_in_order(const json& settings) {
  const DeltaSizes s(settings);
  const int64_t keys = s.key_heads * s.key_size;
  std::vector<int64_t> rows;
  append(rows, 0, 2 * keys);
  append_values(rows, s, 2 * keys, s.value_size);
  return rows;
}

// Returns the rows of q, k, v and z, one behind the other, sorted by key head.
std::vector<int64_t> by_key_head(const json& settings) {
  const DeltaSizes s(settings);
  const int64_t keys = s.key_heads * s.key_size, values = s.values_per_key * s.value_size;
  std::vector<int64_t> rows;
  for (int64_t k = 0; k < s.key_heads; ++k) {
    append(rows, k * s.key_size, s.key_size);
    append(rows, keys + k * s.key_size, s.key_size);
    append(rows, 2 * keys + k * values, values);
    append(rows, 2 * keys + s.key_heads * values + k * values, values);
  }
  return rows;
}

// A layer is recurrent as the list says, or all but the last of each full_attention_interval layers.
void read_layers(SettingsReader& r) {
  const json listed = r.get("attention.recurrent_layers");
  const int64_t interval = r.integer("full_attention_interval", 4);
  if (interval < 1) return r.refuse("full_attention_interval", "a positive integer");
  json types = json::array();
  for (int64_t layer = 0; layer < std::min(r.size("num_hidden_layers"), kMaxLayers); ++layer) {
    const bool recurrent =
        listed.is_null() ? (layer + 1) % interval != 0 : gguf_number_of_layer(listed, layer) != 0;
    types.push_back(recurrent ? "linear_attention" : "full_attention");
  }
  r.set("layer_types", types);
}

void read_value_size(SettingsReader& r) {
  const int64_t features = r.integer("ssm.inner_size", 0), values = r.size("linear_num_value_heads"),
                keys = r.size("linear_num_key_heads");
  if (values <= 0 || keys <= 0) return;
  if (values % keys != 0) return r.refuse("ssm.time_step_rank", fmt::format("a multiple of {}", keys));
  if (features <= 0 || features % values != 0)
    return r.refuse("ssm.inner_size", fmt::format("a multiple of ssm.time_step_rank, {}", values));
  r.set("linear_value_head_dim", features / values);
}

ConfigEntries delta_metadata() {
  return {size_entry("ssm.conv_kernel", {}, "linear_conv_kernel_dim"),
          size_entry("ssm.state_size", {}, "linear_key_head_dim"),
          size_entry("ssm.group_count", {}, "linear_num_key_heads"),
          size_entry("ssm.time_step_rank", {}, "linear_num_value_heads"),
          {.settings = {"linear_value_head_dim"}, .read = read_value_size},
          {.settings = {"layer_types"}, .read = read_layers},
          ignored_entry({"rope.dimension_sections"})};
}

std::map<std::string, std::string> delta_layers() {
  return {{"post_attention_norm", "post_attention_layernorm"},
          {"ffn_norm", ""},
          {"attn_qkv", "linear_attn.in_proj_qkv"},
          {"attn_gate", "linear_attn.in_proj_z"},
          {"ssm_in", "linear_attn.in_proj_qkvz"},
          {"ssm_ba", "linear_attn.in_proj_ba"},
          {"ssm_beta", "linear_attn.in_proj_b"},
          {"ssm_alpha", "linear_attn.in_proj_a"},
          {"ssm_conv1d", "linear_attn.conv1d"},
          {"ssm_dt.bias", "linear_attn.dt_bias"},
          {"ssm_a", "linear_attn.A_log"},
          {"ssm_norm", "linear_attn.norm"},
          {"ssm_out", "linear_attn.out_proj"}};
}

}  // namespace

DecoderGguf delta_gguf(const std::string& architecture, bool split) {
  DecoderGguf form{.architecture = architecture,
                   .pre_tokenizer = split ? "qwen35" : "qwen2",
                   .rotates_parts = true,
                   .layers = delta_layers(),
                   .more = delta_metadata(),
                   .from_one = {".input_layernorm.weight", ".post_attention_layernorm.weight",
                                ".q_norm.weight", ".k_norm.weight", "model.norm.weight"},
                   .instead = {gguf_layers_entry()}};
  const auto name = [](const char* end) { return std::string(".linear_attn.") + end; };
  if (!split) {
    form.arranged = {{name("in_proj_qkvz.weight"),
                      {name("in_proj_qkv.weight"), name("in_proj_z.weight")},
                      [](const json& settings, const std::vector<Tensor>& parts) {
                        const DeltaSizes s(settings);
                        expect_count(s, 2.0 * static_cast<double>(s.value_size),
                                     2.0 * static_cast<double>(s.key_size), parts, 0);
                        return rows_in_order(parts, by_key_head(settings));
                      }}};
    return form;
  }
  form.ordered = {{name("in_proj_qkv.weight"), inputs_in_order},
                  {name("conv1d.weight"), inputs_in_order},
                  {name("in_proj_z.weight"), values_in_order},
                  {name("in_proj_b.weight"), heads_in_order},
                  {name("in_proj_a.weight"), heads_in_order},
                  {name("dt_bias"), heads_in_order},
                  {name("A_log"), heads_in_order}};
  form.arranged = {{name("out_proj.weight"),
                    {name("out_proj.weight")},
                    [](const json& settings, const std::vector<Tensor>& parts) {
                      const DeltaSizes s(settings);
                      expect_count(s, static_cast<double>(s.value_size), 0, parts, 1);
                      return columns_in_order(parts[0], values_in_order(settings));
                    }}};
  return form;
}

}  // namespace genesis::models
