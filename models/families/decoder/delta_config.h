// The settings of decoders of which some layers have the gated delta rule instead of attention (gated_delta_net.h), and how
// config.json says them.
#pragma once

#include <string>
#include <vector>

#include "models/families/decoder/config.h"
#include "models/families/decoder/family.h"

namespace genesis::models {

struct DeltaConfig {
  double partial_rotary_factor = 0.25;
  int64_t linear_conv_kernel_dim = 4;  // tokens that the convolution before the gated delta rule reads
  int64_t linear_key_head_dim = 32, linear_value_head_dim = 32;
  int64_t linear_num_key_heads = 2, linear_num_value_heads = 4;

  static void fields(auto& self, auto&& visit) {
    visit("partial_rotary_factor", self.partial_rotary_factor);
    visit("linear_conv_kernel_dim", self.linear_conv_kernel_dim);
    visit("linear_key_head_dim", self.linear_key_head_dim);
    visit("linear_value_head_dim", self.linear_value_head_dim);
    visit("linear_num_key_heads", self.linear_num_key_heads);
    visit("linear_num_value_heads", self.linear_num_value_heads);
  }
  // Returns the sizes of the gated delta rule. Throws Error that names the family and the setting if sizes are invalid.
  DeltaDesign delta(const std::string& family) const;
};

// Returns true if the layer has attention, as layer_types says; without types every fourth layer has. Throws Error that names the
// family if the list is invalid.
bool has_attention(const std::string& family, const DecoderConfig& config, int64_t layer);
// Removes the types of layers, which make_decoder() takes for those of windows.
DecoderConfig without_layer_types(DecoderConfig config);

// Returns the design of a layer of Qwen3-Next and Qwen3.5, without experts.
LayerDesign delta_or_attention(const DeltaDesign& delta, bool attends);

// Returns the entries of DeltaConfig but partial_rotary_factor, of layer_types, and of biases, which no class has.
ConfigEntries delta_entries();

}  // namespace genesis::models
