// Writes into a model's own weights what a PEFT adapter changes beside low-rank additions to linear layers: DoRA
// (Liu and others, 2024, arXiv:2402.09353), additions to embeddings, biases, and modules that were trained whole.
#pragma once

#include "models/formats/hugging_face/adapter_config.h"
#include "schema/file/other_formats/safetensors.h"

namespace genesis::models::hugging_face {

// Writes these changes into the weights and takes their tensors from `file`. Tensors of layers that the model does not have stay
// there. The model's metadata keeps what was changed, so that add_changed_weights() finds it. Throws Error if a tensor has another
// shape than the weight, the weight is quantized, or the model shares it between its embedding and its head and PEFT does not.
void change_weights(Model& model, SafeTensors& file, const AdapterConfig& config);

// Adds the weights that change_weights() changed, as modules that were trained whole and trained biases, to an adapter that is
// written, and names them in its configuration.
void add_changed_weights(const Model& model, SafeTensors& file, nlohmann::ordered_json& config);

// Names of tensors in an adapter begin so.
inline constexpr std::string_view kAdapterPrefix = "base_model.model.";

}  // namespace genesis::models::hugging_face
