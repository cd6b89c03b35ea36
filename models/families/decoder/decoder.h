// The decoder of Llama and of the families like it, as a configurable graph. Parameters have the names of transformers
// ("model.layers.0.self_attn.q_proj.weight"). Entry points: models/decoder.h.
//
// A family chooses the design of each layer (design.h). A family that needs another one adds a value there, and a case where it is
// built.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "models/families/decoder/config.h"
#include "models/families/decoder/design.h"

namespace genesis::models {

// Makes a decoder. Throws Error that names the family and the setting if settings are invalid or contradict each other.
std::unique_ptr<Model> make_decoder(const std::string& family, const DecoderConfig& config,
                                    const DesignOfLayer& design_of, uint64_t seed,
                                    const NetworkDesign& network = {});

// Returns the number of elements of a head that rotate where the setting partial_rotary_factor says it. Throws Error that names the
// family if that is no even number of elements.
int64_t rotary_size_of(const std::string& family, const DecoderConfig& config, double partial_rotary_factor);

}  // namespace genesis::models
