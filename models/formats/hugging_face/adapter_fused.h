// Adapters of layers that checkpoints hold as one matrix and models of the zoo as several, such as qkv_proj of Phi-3. PEFT has one
// A and one B for the whole; the model has them for each part.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "models/families.h"
#include "passes/lora/lora.h"
#include "schema/file/other_formats/safetensors.h"

namespace genesis::models::hugging_face {

// Replaces the A and B of each fused layer by those of its parts: each part has the same A, and its rows of B. Returns the fused layer
// of each part, both without ".weight". Throws Error if B has another number of rows than the parts of the model together.
std::map<std::string, std::string> split_adapters(const Model& model, const std::vector<FusedWeights>& fused,
                                                  SafeTensors& file);

// Gives the parts, which are the targets of `options`, the ranks and alphas that their fused layers have in it.
passes::LoraOptions options_of_parts(passes::LoraOptions options,
                                     const std::map<std::string, std::string>& whole_of);

// Does the opposite of split_adapters(), exactly: parts with the same A and the same scale share it. Otherwise the A's of the parts
// lie below each other, the rank of the layer is the sum of theirs, and B has zeros between them; a part without an adapter has
// zeros. Replaces the targets in `options` by all layers that have adapters now, with their ranks and alphas.
void join_adapters(const Model& model, const std::vector<FusedWeights>& fused, SafeTensors& file,
                   passes::LoraOptions& options);

}  // namespace genesis::models::hugging_face
