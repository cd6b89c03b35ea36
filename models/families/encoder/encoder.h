// Encoders like BERT (Devlin et al., "BERT: Pre-training of deep bidirectional transformers for language understanding", 2019) as
// a configurable graph: learned positions, norms behind attention and MLP. Parameters have the names of transformers. Entry points:
// models/encoder.h.
#pragma once

#include <memory>
#include <string>

#include "models/families/encoder/config.h"
#include "models/families/encoder/design.h"

namespace genesis::models {

// Makes an encoder. Throws Error that names the family and the setting if settings are invalid or contradict each other.
std::unique_ptr<Model> make_encoder(const std::string& family, const EncoderConfig& config,
                                    const EncoderDesign& design, uint64_t seed);

}  // namespace genesis::models
