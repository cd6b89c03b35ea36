// All that the file of a family of decoders includes: make_decoder() as a network, and the forms in other formats.
#pragma once

#include "models/families.h"
#include "models/families/decoder/config_json.h"
#include "models/families/decoder/decoder.h"
#include "models/families/decoder/gguf.h"
#include "models/network.h"

namespace genesis::models {

// gate_proj and up_proj as one matrix.
inline const FusedWeights kFusedGateUp = {".mlp.gate_up_proj.weight",
                                          {".mlp.gate_proj.weight", ".mlp.up_proj.weight"}};

// Returns the network of a family whose layers have this design, but for windows, which settings choose by layer.
inline Network decoder_network(const DecoderConfig& standard, const LayerDesign& every_layer = {},
                               const NetworkDesign& network = {}) {
  return make_network(standard, [every_layer, network](const std::string& family, const DecoderConfig& config,
                                                       uint64_t seed) {
    const auto design_of = [&](int64_t layer) {
      LayerDesign design = every_layer;
      design.window = config.window_of(layer);
      return design;
    };
    return make_decoder(family, config, design_of, seed, network);
  });
}

}  // namespace genesis::models
