// Methods that store a weight as bytes of E4M3 beside its scales: "fp8" (DeepSeek, Qwen3, Ministral 3), with blocks or one scale, and
// "fbgemm_fp8", with a scale per row.
#include "models/formats/hugging_face/quantized/config.h"
#include "models/formats/hugging_face/quantized/make_weight.h"
#include "models/formats/hugging_face/quantized/methods.h"

namespace genesis::models::hugging_face::quantized {
namespace {

// Returns the sizes of weight_block_size; 0 if it says none: a weight then has one scale.
BlockHint hint_of(const nlohmann::json& config) {
  const nlohmann::json& sizes = entry_of(config, "weight_block_size");
  if (sizes.is_null()) return {};
  if (!sizes.is_array() || sizes.size() != 2 || !sizes[0].is_number_integer() ||
      !sizes[1].is_number_integer())
    fail("weight_block_size is {}, expected two sizes", sizes.dump().substr(0, 60));
  const BlockHint hint{sizes[0].get<int64_t>(), sizes[1].get<int64_t>()};
  if (hint.rows <= 0 || hint.columns <= 0)
    fail("weight_block_size is {}, expected sizes from 1 on", sizes.dump().substr(0, 60));
  return hint;
}

// Returns the names of all tensors of E4M3 and E5M2.
std::vector<std::string> weights_in(const StoredTensors& stored) {
  std::vector<std::string> names = stored.names_before("");
  std::erase_if(names,
                [&](const std::string& name) { return !stored.find(name)->dtype.starts_with("F8_E"); });
  std::erase_if(names, [&](const std::string& name) {
    return name.find("_scale") != name.npos || !is_byte_per_value(*stored.find(name));
  });
  return names;
}

EncodedWeights take(StoredTensors& stored, Problems& problems, const BlockHint& hint, const char* end) {
  EncodedWeights weights;
  collect(weights_in(stored), "", weights, problems, [&](const std::string& name) {
    const StoredTensor weight = *stored.take(name);
    return weight_of_bytes(weight, take_needed(stored, name + end), hint, "fp8");
  });
  return weights;
}

}  // namespace

EncodedWeights take_fp8(const nlohmann::json& config, StoredTensors& stored, Problems& problems) {
  if (const std::string format = text_in(config, "fmt", "e4m3"); format != "e4m3" && format != "e5m2")
    fail("fmt is '{}', expected e4m3 or e5m2", format);
  return take(stored, problems, hint_of(config), "_scale_inv");
}

EncodedWeights take_fbgemm_fp8(const nlohmann::json&, StoredTensors& stored, Problems& problems) {
  return take(stored, problems, {}, "_scale");
}

}  // namespace genesis::models::hugging_face::quantized
