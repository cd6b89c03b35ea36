// The quantization methods of checkpoints: one row each in methods.cpp, one file each in this folder.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "models/formats/hugging_face/quantized/encoded_weight.h"
#include "models/formats/hugging_face/quantized/stored_tensors.h"

namespace genesis::models::hugging_face::quantized {

// Each takes the tensors of all quantized weights, and adds what is wrong to `problems`. A module that the method left as it was has
// a plain weight, whatever the configuration says (modules_to_not_convert, ignore), so that no list of modules is read. Throws
// Error for a setting that is not read. `config` is an object.
EncodedWeights take_fp8(const nlohmann::json& config, StoredTensors& stored, Problems& problems);
EncodedWeights take_fbgemm_fp8(const nlohmann::json& config, StoredTensors& stored, Problems& problems);
EncodedWeights take_modelopt(const nlohmann::json& config, StoredTensors& stored, Problems& problems);
EncodedWeights take_compressed_tensors(const nlohmann::json& config, StoredTensors& stored,
                                       Problems& problems);
EncodedWeights take_gptq(const nlohmann::json& config, StoredTensors& stored, Problems& problems);
EncodedWeights take_awq(const nlohmann::json& config, StoredTensors& stored, Problems& problems);
EncodedWeights take_auto_round(const nlohmann::json& config, StoredTensors& stored, Problems& problems);
EncodedWeights take_bitsandbytes(const nlohmann::json& config, StoredTensors& stored, Problems& problems);
EncodedWeights take_mxfp4(const nlohmann::json& config, StoredTensors& stored, Problems& problems);

// Returns the method's name: quant_method, or what older files say instead. Throws Error for a method that is not read, with those
// that are.
std::string method_of(const nlohmann::json& config);

// Takes the weights that the configuration says are quantized, and what the method keeps beside them for activations, which are not
// quantized here. One Error lists everything that does not fit.
EncodedWeights take_encoded(const nlohmann::json& config, StoredTensors& stored);

}  // namespace genesis::models::hugging_face::quantized
