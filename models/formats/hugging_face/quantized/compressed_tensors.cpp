// compressed-tensors (llm-compressor, vLLM). A module has "weight" as bytes of E4M3 or I8, or "weight_packed": words of 32 bits with
// integers of 1 to 8 bits and their weight_shape, or bytes with two E2M1 each (NVFP4, MXFP4). Beside it are weight_scale, and
// weight_zero_point, weight_global_scale and weight_g_idx, where the scheme has them. What a module has says how it is read; the
// configuration says only the number of bits and the sizes of groups and blocks.
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "models/formats/hugging_face/quantized/config.h"
#include "models/formats/hugging_face/quantized/make_weight.h"
#include "models/formats/hugging_face/quantized/methods.h"
#include "models/formats/hugging_face/quantized/packed_integers.h"

namespace genesis::models::hugging_face::quantized {
namespace {

constexpr std::string_view kFormats[] = {
    "dense",          "float-quantized",      "int-quantized",        "naive-quantized",
    "pack-quantized", "nvfp4-pack-quantized", "mxfp4-pack-quantized", "mxfp8-quantized",
    "mixed-precision"};

// The weights of the groups of modules in the configuration.
struct Schemes {
  std::set<int64_t> bits, group_sizes;
  BlockHint block;
};

void check_format(const std::string& format) {
  if (std::ranges::find(kFormats, format) == std::end(kFormats))
    fail("its format is '{}': read are {}", format, fmt::join(kFormats, ", "));
}

void add_scheme(const nlohmann::json& weights, Schemes& schemes) {
  schemes.bits.insert(size_in(weights, "num_bits", 8));
  schemes.group_sizes.insert(group_size_in(weights, "group_size", -1));
  const nlohmann::json& block = entry_of(weights, "block_structure");
  if (!block.is_array()) return;
  if (block.size() != 2 || !block[0].is_number_unsigned() || !block[1].is_number_unsigned() ||
      block[0] == 0 || block[1] == 0)
    fail("block_structure is {}, expected two sizes from 1 on", block.dump().substr(0, 60));
  schemes.block = {block[0].get<int64_t>(), block[1].get<int64_t>()};
}

Schemes read_settings(const nlohmann::json& config) {
  check_format(text_in(config, "format", "dense"));
  for (const char* other : {"sparsity_config", "transform_config"}) {
    const nlohmann::json& entry = entry_of(config, other);
    if (!entry.empty() && text_in(entry, "format", "") != "dense" &&
        entry != nlohmann::json{{"config_groups", nlohmann::json::object()}})
      fail("its {} is not read: sparse and rotated weights need the library that made them", other);
  }
  Schemes schemes;
  for (const auto& [name, group] : entry_of(config, "config_groups").items()) {
    check_format(text_in(group, "format", "dense"));
    if (entry_of(group, "weights").is_object()) add_scheme(group.at("weights"), schemes);
  }
  return schemes;
}

// --- integers in words

struct Packing {
  int bits;
  bool cross_words;
};

// Returns how the words of a row hold its codes. Before version 0.20 of the library, codes did not cross words.
Packing packing_of(const StoredTensor& words, int64_t columns, const Schemes& schemes) {
  for (const bool cross_words : {true, false})
    for (const int64_t bits : schemes.bits)
      if (bits >= 1 && bits <= 8 && words_for(columns, static_cast<int>(bits), cross_words) == words.size(1))
        return {static_cast<int>(bits), cross_words};
  fail("its weight_packed is {}, which does not hold {} values per row with any of these bits: {}",
       words.to_string(), columns, fmt::join(schemes.bits, ", "));
}

Shape shape_in(const StoredTensor& stored) {
  if ((stored.dtype != "I64" && stored.dtype != "I32") || stored.numel() != 2)
    fail("its weight_shape is {}, expected two sizes as I64", stored.to_string());
  const std::vector<double> sizes = stored.bytes.to_doubles();
  for (const double size : sizes)
    if (size < 0 || size > INT32_MAX) fail("its weight_shape says {} x {}", sizes[0], sizes[1]);
  return Shape::of({static_cast<int64_t>(sizes[0]), static_cast<int64_t>(sizes[1])});
}

// The zeros of groups are words down each column, [rows * bits / 32, groups].
void set_packed_zeros(EncodedWeight& weight, const StoredTensor& zeros, const Packing& packing) {
  const int64_t groups = weight.blocks.in_row, rows = weight.rows;
  check_stored("weight_zero_point", zeros, "I32",
               {words_for(rows, packing.bits, packing.cross_words), groups});
  if (!packing.cross_words && 32 % packing.bits != 0)
    fail("zeros of {} bits are read only as version 0.20 of compressed-tensors packs them", packing.bits);
  weight.numbers = integers(packing.bits, 0);
  weight.blocks.zeros = [codes = words_down_columns(zeros.bytes, groups, rows, packing.bits), groups, rows] {
    return all_codes(codes, groups, rows, 0, true);
  };
}

EncodedWeight take_integers(StoredTensors& stored, const std::string& name, const StoredTensor& words,
                            const StoredTensor& scales, const Schemes& schemes) {
  const Shape shape = shape_in(take_needed(stored, name + "_shape"));
  const int64_t rows = shape[0].value(), columns = shape[1].value();
  if (!words.is_matrix()) fail("its weight_packed is {}, expected a matrix", words.to_string());
  const Packing packing = packing_of(words, columns, schemes);
  check_stored("weight_packed", words, "I32", {rows, words.size(1)});
  EncodedWeight weight{fmt::format("int{} of compressed-tensors", packing.bits), shape, rows, columns};
  weight.codes = words_along_rows(words.bytes, words.size(1), columns, packing.bits, packing.cross_words);
  weight.numbers = integers(packing.bits, 1 << (packing.bits - 1));
  weight.has_integers = true;
  const int64_t hint = *schemes.group_sizes.rbegin();
  weight.blocks = blocks_of(shape, scales, {0, hint});
  if (const auto index = stored.take(name + "_g_idx"))
    set_groups(weight, {weight.blocks.columns_each, weight.blocks.in_row}, index);
  if (const auto zeros = stored.take(name + "_zero_point")) set_packed_zeros(weight, *zeros, packing);
  return weight;
}

// --- one module

EncodedWeight take_packed(StoredTensors& stored, const std::string& name, const Schemes& schemes) {
  const StoredTensor words = *stored.take(name + "_packed"), scales = take_needed(stored, name + "_scale");
  if (words.dtype == "I32") return take_integers(stored, name, words, scales, schemes);
  const auto global = stored.take(name + "_global_scale");
  EncodedWeight weight = weight_of_e2m1(words, scales, {0, global ? 16 : 32}, global ? "nvfp4" : "mxfp4");
  if (global) take_global_scale(weight, *global, GlobalScale::kDivides);
  return weight;
}

// Zeros of I8 weights are I8 in the form of the scales. Those of E4M3 are all 0.
void set_byte_zeros(EncodedWeight& weight, const StoredTensor& zeros, const StoredTensor& scales) {
  if (!weight.has_integers) return;
  check_stored("weight_zero_point", zeros, "I8", scales.shape.sizes());
  weight.blocks.zeros = [zeros] {
    const auto all = zeros.bytes.as<int8_t>();
    return std::vector<float>(all.begin(), all.end());
  };
}

EncodedWeight take_bytes(StoredTensors& stored, const std::string& name, const Schemes& schemes) {
  const StoredTensor bytes = *stored.take(name), scales = take_needed(stored, name + "_scale");
  const int64_t group = schemes.group_sizes.empty() ? 0 : std::max<int64_t>(*schemes.group_sizes.rbegin(), 0);
  const BlockHint hint = schemes.block.rows > 0 ? schemes.block : BlockHint{0, group};
  EncodedWeight weight = weight_of_bytes(bytes, scales, hint, bytes.dtype == "I8" ? "int8" : "fp8");
  if (const auto zeros = stored.take(name + "_zero_point")) set_byte_zeros(weight, *zeros, scales);
  if (const auto index = stored.take(name + "_g_idx"))
    set_groups(weight, {weight.blocks.columns_each, weight.blocks.in_row}, index);
  return weight;
}

}  // namespace

EncodedWeights take_compressed_tensors(const nlohmann::json& config, StoredTensors& stored,
                                       Problems& problems) {
  Schemes schemes = read_settings(config);
  if (schemes.group_sizes.empty()) schemes.group_sizes = {-1};
  EncodedWeights weights;
  std::vector<std::string> packed = stored.names_before("_packed"), bytes = stored.names_before(".weight");
  collect(packed, "", weights, problems,
          [&](const std::string& name) { return take_packed(stored, name, schemes); });
  for (std::string& name : bytes) name += ".weight";
  std::erase_if(bytes, [&](const std::string& name) { return !is_byte_per_value(*stored.find(name)); });
  collect(bytes, "", weights, problems,
          [&](const std::string& name) { return take_bytes(stored, name, schemes); });
  return weights;
}

}  // namespace genesis::models::hugging_face::quantized
