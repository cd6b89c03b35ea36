// NVIDIA's Model Optimizer: E4M3 with scales of the tensor, of rows or of blocks; NVFP4, which has a scale in E4M3 for each 16 values
// and one for all.
#include "models/formats/hugging_face/quantized/config.h"
#include "models/formats/hugging_face/quantized/make_weight.h"
#include "models/formats/hugging_face/quantized/methods.h"

namespace genesis::models::hugging_face::quantized {
namespace {

void check_algorithm(const std::string& algorithm) {
  for (const char* read : {"FP8", "FP8_PER_CHANNEL_PER_TOKEN", "FP8_PB_WO", "NVFP4", "MIXED_PRECISION", ""})
    if (algorithm == read) return;
  fail("quant_algo is '{}': read are FP8, FP8_PER_CHANNEL_PER_TOKEN, FP8_PB_WO, NVFP4 and MIXED_PRECISION",
       algorithm);
}

EncodedWeight take_one(StoredTensors& stored, const std::string& name) {
  const StoredTensor weight = *stored.take(name);
  const StoredTensor scales = take_needed(stored, name + "_scale");
  if (weight.dtype != "U8") return weight_of_bytes(weight, scales, {128, 128}, "fp8");
  EncodedWeight made = weight_of_e2m1(weight, scales, {0, 16}, "nvfp4");
  take_global_scale(made, take_needed(stored, name + "_scale_2"), GlobalScale::kMultiplies);
  return made;
}

}  // namespace

EncodedWeights take_modelopt(const nlohmann::json& config, StoredTensors& stored, Problems& problems) {
  // hf_quant_config.json has the same inside of "quantization".
  const nlohmann::json& inner = entry_of(config, "quantization");
  check_algorithm(text_in(inner.is_null() ? config : inner, "quant_algo", ""));
  std::vector<std::string> names = stored.names_before(".weight");
  std::erase_if(names, [&](std::string& name) {
    const StoredTensor weight = *stored.find(name += ".weight");
    return weight.dtype != "U8" && !is_byte_per_value(weight);
  });
  EncodedWeights weights;
  collect(names, "", weights, problems, [&](const std::string& name) { return take_one(stored, name); });
  return weights;
}

}  // namespace genesis::models::hugging_face::quantized
