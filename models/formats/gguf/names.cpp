#include "models/formats/gguf/names.h"

#include <algorithm>
#include <map>

namespace genesis::models::gguf {
namespace {

using Names = std::map<std::string, std::string>;

struct Family {
  std::string blocks;     // "model.layers."
  Names outside, inside;  // outside and inside of the blocks, without ".weight" and ".bias"
};

const Family& family_of(const std::string& model) {
  static const Family gpt2 = {"transformer.h.",
                              {{"token_embd", "transformer.wte"},
                               {"position_embd", "transformer.wpe"},
                               {"output_norm", "transformer.ln_f"},
                               {"output", "lm_head"}},
                              {{"attn_norm", "ln_1"},
                               {"attn_qkv", "attn.c_attn"},
                               {"attn_output", "attn.c_proj"},
                               {"ffn_norm", "ln_2"},
                               {"ffn_up", "mlp.c_fc"},
                               {"ffn_down", "mlp.c_proj"}}};
  static const Family decoder = {
      "model.layers.",
      {{"token_embd", "model.embed_tokens"}, {"output_norm", "model.norm"}, {"output", "lm_head"}},
      {{"attn_norm", "input_layernorm"},
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
  return model == "gpt2" ? gpt2 : decoder;
}

std::string found(const Names& names, const std::string& layer, const std::string& kind) {
  const auto at = names.find(layer);
  return at == names.end() ? "" : at->second + kind;
}

bool is_number(const std::string& text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

std::string name_in_zoo(const std::string& name, const std::string& model) {
  const Family& family = family_of(model);
  const size_t last = name.rfind('.');
  if (last == std::string::npos) return "";
  const std::string layer = name.substr(0, last), kind = name.substr(last);
  if (kind != ".weight" && kind != ".bias") return "";
  if (!layer.starts_with("blk.")) return found(family.outside, layer, kind);
  const size_t dot = layer.find('.', 4);
  const std::string block = layer.substr(4, dot == std::string::npos ? dot : dot - 4);
  if (dot == std::string::npos || !is_number(block)) return "";
  const std::string inside = found(family.inside, layer.substr(dot + 1), kind);
  return inside.empty() ? "" : family.blocks + block + "." + inside;
}

bool has_rows_in_pairs(const std::string& name, const std::string& model) {
  return model == "llama" &&
         (name.ends_with(".self_attn.q_proj.weight") || name.ends_with(".self_attn.k_proj.weight"));
}

}  // namespace genesis::models::gguf
