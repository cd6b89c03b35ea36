// The settings that all decoders with Mamba2 have, and how their tables say them in config.json.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "models/families/decoder/design.h"
#include "models/families/decoder/family.h"

namespace genesis::models {

struct MambaSettings {
  int64_t mamba_n_heads = 8, mamba_d_head = 64;
  int64_t mamba_n_groups = 1;  // each has a B and a C for as many heads
  int64_t mamba_d_state = 64;
  int64_t mamba_d_conv = 4;  // tokens that the convolution before the state space reads
  bool mamba_conv_bias = true;
  bool mamba_proj_bias = false;
  double time_step_least = 0,
         time_step_greatest = 0;  // steps are clamped; a greatest one of 0: there is none

  static void fields(auto& self, auto&& visit) {
    visit("mamba_n_heads", self.mamba_n_heads);
    visit("mamba_d_head", self.mamba_d_head);
    visit("mamba_n_groups", self.mamba_n_groups);
    visit("mamba_d_state", self.mamba_d_state);
    visit("mamba_d_conv", self.mamba_d_conv);
    visit("mamba_conv_bias", self.mamba_conv_bias);
    visit("mamba_proj_bias", self.mamba_proj_bias);
    visit("time_step_least", self.time_step_least);
    visit("time_step_greatest", self.time_step_greatest);
  }
  // Returns the design with these sizes. Throws Error that names the family and the setting if sizes are invalid.
  MambaDesign mamba(const std::string& family) const;
};

// The names of these settings in the config.json of a class; its defaults where entries are absent.
struct MambaEntries {
  const char *heads = "mamba_n_heads", *head_size = "mamba_d_head", *groups = "mamba_n_groups",
             *state_size = "mamba_d_state", *taps = "mamba_d_conv", *convolution_bias = "mamba_conv_bias",
             *biases = "mamba_proj_bias";
  // The ratio of heads * head size to hidden_size; a head size of "auto" follows from it. It is null for a class that ignores it.
  const char* expand = "mamba_expand";
  int64_t default_heads = 128, default_groups = 1, default_state_size = 256;
  nlohmann::json default_head_size = "auto";
};
// It follows the entry of hidden_size.
ConfigEntries mamba_entries(const MambaEntries& names);

// The GGUF metadata of Mamba2, and the names of its tensors in a block, for DecoderGguf::layers. `module` is that of the mixer.
ConfigEntries gguf_mamba_entries();
std::map<std::string, std::string> gguf_mamba(const std::string& module);

// The kinds of layers by their names in config.json, of which the first ones are older: mamba and attention.
inline constexpr const char *kMambaLayer = "linear_attention", *kAttentionLayer = "full_attention";

// The kinds of layers repeat these where the setting layer_types is empty.
using LayerCycle = std::vector<std::string>;
// Three layers with Mamba2, then one with attention.
LayerCycle mamba_cycle();
// Returns the kind of each of `layers` layers. Throws Error that names the family if there are other kinds, or not so many.
std::vector<std::string> kinds_of_layers(const std::string& family, const LayerCycle& cycle,
                                         const std::vector<std::string>& layer_types, int64_t layers);
// Reads a list of kinds of layers for the setting layer_types, and the number of layers; another kind than those of the cycle is
// refused.
void read_layer_kinds(SettingsReader& r, const std::string& name, const nlohmann::json& list,
                      const LayerCycle& cycle);
// Returns the entry of the setting layer_types as the list `name`, or `older`; absent: `where_absent` in each layer.
ConfigEntry layer_kinds_entry(const std::string& name, const std::string& older, const LayerCycle& cycle,
                              const std::string& where_absent);
// Writes the kind of each layer.
nlohmann::json all_layer_kinds(const nlohmann::json& settings, const LayerCycle& cycle);

// Returns the entry of a list of `count` factors, each of them 1 where it is absent.
ConfigEntry factors_entry(const std::string& name, int64_t count);
void check_factors(const std::string& family, const std::string& name, const std::vector<double>& factors,
                   size_t count);

}  // namespace genesis::models
