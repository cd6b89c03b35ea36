#include "tests/fuzz/try_quantized.h"

#include <nlohmann/json.hpp>

#include "models/formats/hugging_face/quantized/keep.h"
#include "models/formats/hugging_face/quantized/methods.h"

namespace genesis::testing {

namespace quantized = models::hugging_face::quantized;

bool try_quantized(const nlohmann::json& config, const std::string& bytes) try {
  const auto owner = std::make_shared<const std::string>(bytes);
  OtherTensors others;
  NamedTensors tensors = read_safetensors_from(owner, std::as_bytes(std::span(*owner)), &others).tensors;
  quantized::StoredTensors stored(tensors, others);
  for (const auto& [name, weight] : quantized::take_encoded(config, stored)) {
    for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) quantized::decode(weight, dtype);
    quantized::kept(weight, DType::bf16);
  }
  return true;
} catch (const Error&) {
  return false;
}

}  // namespace genesis::testing
