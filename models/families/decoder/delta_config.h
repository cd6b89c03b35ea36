// The settings of decoders of which some layers have the gated delta rule instead of attention (gated_delta_net.h), and how
// config.json says them.
#pragma once

#include <functional>
#include <memory>
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
// Makes a decoder whose layers have the gated delta rule, or attention with gates. `split`: each input of the rule has a product of
// its own. `experts_of` returns the experts of a layer; their count is 0 if it has an MLP.
std::unique_ptr<Model> make_delta_decoder(const std::string& family, const DecoderConfig& config,
                                          const DeltaConfig& delta, bool split,
                                          const std::function<ExpertsDesign(int64_t layer)>& experts_of,
                                          uint64_t seed);

// Returns the entries of DeltaConfig but partial_rotary_factor, of layer_types, and of biases, which no class has.
ConfigEntries delta_entries();

// Returns the form of these decoders in GGUF files, without what experts add.
DecoderGguf delta_gguf(const std::string& architecture, bool split);

}  // namespace genesis::models
