// AWQ in the layout "gemm": qweight [inputs, outputs / 8] has the codes of eight outputs in a word, in the order of kAwqOrder; qzeros
// [groups, outputs / 8] likewise; scales [groups, outputs].
#include "models/formats/hugging_face/quantized/config.h"
#include "models/formats/hugging_face/quantized/make_weight.h"
#include "models/formats/hugging_face/quantized/methods.h"
#include "models/formats/hugging_face/quantized/packed_integers.h"

namespace genesis::models::hugging_face::quantized {
namespace {

constexpr int kBits = 4;

int64_t read_group_size(const nlohmann::json& config) {
  std::string layout = text_in(config, "version", text_in(config, "format", "gemm"));
  for (char& c : layout)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  if (layout != "gemm" && layout != "exllama") fail("version is '{}': read is gemm", layout);
  if (const int64_t bits = size_in(config, "bits", size_in(config, "w_bit", kBits)); bits != kBits)
    fail("bits is {}: read is 4", bits);
  return group_size_in(config, config.contains("group_size") ? "group_size" : "q_group_size", 128);
}

EncodedWeight take_one(StoredTensors& stored, const std::string& module, int64_t group_size) {
  const StoredTensor words = *stored.take(module + ".qweight");
  const StoredTensor zeros = take_needed(stored, module + ".qzeros"),
                     scales = take_needed(stored, module + ".scales");
  if (!words.is_matrix() || !scales.is_matrix())
    fail("its qweight is {} and its scales {}, expected matrices", words.to_string(), scales.to_string());
  const int64_t columns = words.size(0), groups = scales.size(0), rows = scales.size(1);
  check_stored("qweight", words, "I32", {columns, rows / 8});
  check_stored("qzeros", zeros, "I32", {groups, rows / 8});
  if (rows % 8 != 0) fail("it has {} outputs, expected a multiple of 8", rows);
  EncodedWeight weight{"awq", Shape::of({rows, columns}), rows, columns};
  weight.codes = awq_words(words.bytes, rows, columns);
  weight.numbers = integers(kBits, 0);
  weight.has_integers = true;
  weight.blocks.scales = [scales] { return transposed_numbers(scales); };
  weight.blocks.zeros = [codes = awq_words(zeros.bytes, rows, groups), rows, groups] {
    return all_codes(codes, rows, groups, 0, false);
  };
  set_groups(weight, {group_size == -1 ? columns : group_size, groups}, std::nullopt);
  return weight;
}

}  // namespace

EncodedWeights take_awq(const nlohmann::json& config, StoredTensors& stored, Problems& problems) {
  const int64_t group_size = read_group_size(config);
  EncodedWeights weights;
  collect(stored.names_before(".qweight"), ".weight", weights, problems,
          [&](const std::string& module) { return take_one(stored, module, group_size); });
  return weights;
}

EncodedWeights take_auto_round(const nlohmann::json& config, StoredTensors& stored, Problems& problems) {
  const std::string packing = text_in(config, "packing_format", "");
  if (packing == "auto_round:auto_gptq") return take_gptq(config, stored, problems);
  if (packing == "auto_round:auto_awq") return take_awq(config, stored, problems);
  fail("packing_format is '{}': read are auto_round:auto_gptq and auto_round:auto_awq", packing);
}

}  // namespace genesis::models::hugging_face::quantized
