// The settings of decoders whose heads share one short vector per token (latent_attention.h), and how config.json says them:
// DeepSeek-V2, DeepSeek-V3 and the models with their shapes.
#pragma once

#include <string>

#include "models/families/decoder/config.h"
#include "models/families/decoder/family.h"

namespace genesis::models {

struct LatentConfig {
  int64_t q_lora_rank = 96;  // 0: queries are one product
  int64_t kv_lora_rank = 64;
  int64_t qk_nope_head_dim = 32, qk_rope_head_dim = 16, v_head_dim = 32;
  bool attention_bias = false;
  double rope_mscale_all_dim = 0;  // scores grow with the logarithm of the factor of YaRN; 0: they do not

  static void fields(auto& self, auto&& visit) {
    visit("q_lora_rank", self.q_lora_rank);
    visit("kv_lora_rank", self.kv_lora_rank);
    visit("qk_nope_head_dim", self.qk_nope_head_dim);
    visit("qk_rope_head_dim", self.qk_rope_head_dim);
    visit("v_head_dim", self.v_head_dim);
    visit("attention_bias", self.attention_bias);
    visit("rope_mscale_all_dim", self.rope_mscale_all_dim);
  }
  // Returns the design of all layers, without experts. Throws Error that names the family and the setting if sizes are invalid.
  LayerDesign layer(const std::string& family, const DecoderConfig& config, RopeKind pairs) const;
  // Returns the settings with the number of elements that rotate as the size of a head.
  DecoderConfig with_rotating_heads(const std::string& family, DecoderConfig config) const;
};

// Returns the entries of LatentConfig.
ConfigEntries latent_entries();

// Returns the form of these decoders in GGUF files, without what the router adds. DeepSeek-V2 and V3 share an architecture; `mark` is
// DecoderGguf::mark.
DecoderGguf latent_gguf(const std::string& mark);

}  // namespace genesis::models
