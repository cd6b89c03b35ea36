// MXFP4 of GPT-OSS: for each 32 inputs of an expert 16 bytes of E2M1 in NAME_blocks [experts, outputs, groups, 16], and an exponent
// in NAME_scales [experts, outputs, groups]. NAME is [experts, inputs, outputs].
#include "models/formats/hugging_face/quantized/make_weight.h"
#include "models/formats/hugging_face/quantized/methods.h"

namespace genesis::models::hugging_face::quantized {
namespace {

constexpr int64_t kGroupBytes = 16;

EncodedWeight take_one(StoredTensors& stored, const std::string& name) {
  StoredTensor blocks = *stored.take(name + "_blocks");
  const StoredTensor scales = take_needed(stored, name + "_scales");
  std::vector<int64_t> sizes = blocks.shape.sizes();
  if (sizes.size() != 4 || sizes.back() != kGroupBytes)
    fail("'{}_blocks' is {}, expected [experts, outputs, groups, {}]", name, blocks.to_string(), kGroupBytes);
  sizes.pop_back();
  check_stored(name + "_scales", scales, "U8", sizes);
  sizes.back() *= kGroupBytes;
  blocks.shape = Shape::of(sizes);
  EncodedWeight made = weight_of_e2m1(blocks, scales, {0, 2 * kGroupBytes}, "mxfp4");
  made.shape = Shape({made.shape[0], made.shape[2], made.shape[1]});
  made.is_transposed = true;
  return made;
}

}  // namespace

EncodedWeights take_mxfp4(const nlohmann::json&, StoredTensors& stored, Problems& problems) {
  EncodedWeights weights;
  collect(stored.names_before("_blocks"), "", weights, problems,
          [&](const std::string& name) { return take_one(stored, name); });
  return weights;
}

}  // namespace genesis::models::hugging_face::quantized
