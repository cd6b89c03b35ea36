// GPTQ, of AutoGPTQ and GPTQModel: qweight [inputs * bits / 32, outputs] has the codes of an output down its column; qzeros
// [groups, outputs * bits / 32] the zeros of a group along its row, less one unless checkpoint_format is gptq_v2; scales
// [groups, outputs]; g_idx [inputs] the group of each input.
#include <fmt/ranges.h>

#include <algorithm>

#include "models/formats/hugging_face/quantized/config.h"
#include "models/formats/hugging_face/quantized/make_weight.h"
#include "models/formats/hugging_face/quantized/methods.h"
#include "models/formats/hugging_face/quantized/packed_integers.h"

namespace genesis::models::hugging_face::quantized {
namespace {

struct Gptq {
  std::vector<int> bits;  // a weight has one of these
  int64_t group_size = 0;
  bool zeros_are_less_one = true;
};

Gptq read_settings(const nlohmann::json& config) {
  Gptq read;
  const std::string format = text_in(config, "checkpoint_format", text_in(config, "format", "gptq"));
  if ((format != "gptq" && format != "gptq_v2") || is_on(config, "is_marlin_format"))
    fail("checkpoint_format is '{}': read are gptq and gptq_v2",
         is_on(config, "is_marlin_format") ? "marlin" : format);
  read.zeros_are_less_one = format == "gptq";
  if (const std::string packed = text_in(config, "pack_dtype", "int32"); packed != "int32")
    fail("pack_dtype is '{}': read is int32", packed);
  read.group_size = group_size_in(config, "group_size", 128);
  const int64_t bits = size_in(config, "bits", 4);
  if (bits != 2 && bits != 3 && bits != 4 && bits != 8) fail("bits is {}: read are 2, 3, 4 and 8", bits);
  read.bits = {static_cast<int>(bits)};
  if (entry_of(config, "dynamic").is_object() && !entry_of(config, "dynamic").empty())
    read.bits = {2, 3, 4, 8};  // modules have bits of their own, which their sizes say
  return read;
}

// Returns the bits of a weight. With several that it may have, g_idx has to say how many inputs there are.
int bits_of(const Gptq& settings, const StoredTensor& words, const std::optional<StoredTensor>& index) {
  for (const int bits : settings.bits)
    if (index ? words_for(index->numel(), bits, true) == words.size(0) : settings.bits.size() == 1)
      return bits;
  fail("its qweight is {} and its g_idx {}, which fit none of these bits: {}", words.to_string(),
       index ? index->to_string() : "is missing", fmt::join(settings.bits, ", "));
}

struct Parts {
  StoredTensor words, zeros, scales;
  std::optional<StoredTensor> index;
};

Parts take_parts(StoredTensors& stored, const std::string& module) {
  Parts parts{*stored.take(module + ".qweight"), {}, {}, stored.take(module + ".g_idx")};
  const auto zeros = stored.take(module + ".qzeros"), scales = stored.take(module + ".scales");
  if (!zeros || !scales) fail("'{}.{}' is missing", module, zeros ? "scales" : "qzeros");
  parts.zeros = *zeros;
  parts.scales = *scales;
  for (const StoredTensor* part : {&parts.words, &parts.zeros, &parts.scales})
    if (!part->is_matrix())
      fail("its qweight, qzeros and scales are no matrices: one is {}", part->to_string());
  return parts;
}

void set_zeros(EncodedWeight& weight, const Parts& parts, const Gptq& settings, int bits) {
  const int64_t groups = parts.scales.size(0);
  const ReadCodes codes = words_along_rows(parts.zeros.bytes, parts.zeros.size(1), weight.rows, bits, true);
  const bool add_one = settings.zeros_are_less_one;
  const auto mask = static_cast<float>((1 << bits) - 1);
  weight.blocks.zeros = [codes, groups, rows = weight.rows, add_one, mask] {
    std::vector<float> zeros = all_codes(codes, groups, rows, add_one ? 1 : 0, true);
    std::ranges::replace(zeros, mask + 1, 0.0f);  // the sum has as many bits as the codes
    return zeros;
  };
}

EncodedWeight take_one(StoredTensors& stored, const std::string& module, const Gptq& settings) {
  const Parts parts = take_parts(stored, module);
  const int bits = bits_of(settings, parts.words, parts.index);
  const int64_t rows = parts.words.size(1), groups = parts.scales.size(0);
  const int64_t columns = parts.index ? parts.index->numel() : parts.words.size(0) * 32 / bits;
  check_stored("qweight", parts.words, "I32", {words_for(columns, bits, true), rows});
  check_stored("scales", parts.scales, parts.scales.dtype, {groups, rows});
  check_stored("qzeros", parts.zeros, "I32", {groups, words_for(rows, bits, true)});
  EncodedWeight weight{fmt::format("gptq of {} bits", bits), Shape::of({rows, columns}), rows, columns};
  weight.codes = words_down_columns(parts.words.bytes, rows, columns, bits);
  weight.numbers = integers(bits, 0);
  weight.has_integers = true;
  weight.blocks.scales = [scales = parts.scales] { return transposed_numbers(scales); };
  set_zeros(weight, parts, settings, bits);
  // In one group, and with bits of its own, a module may have another group size than the configuration says.
  const bool is_one = settings.group_size == -1 || groups == 1;
  const bool by_size = settings.bits.size() > 1 && groups > 0 && columns % groups == 0;
  set_groups(weight,
             {is_one    ? columns
              : by_size ? columns / groups
                        : settings.group_size,
              groups},
             parts.index);
  return weight;
}

}  // namespace

EncodedWeights take_gptq(const nlohmann::json& config, StoredTensors& stored, Problems& problems) {
  const Gptq settings = read_settings(config);
  EncodedWeights weights;
  collect(stored.names_before(".qweight"), ".weight", weights, problems,
          [&](const std::string& module) { return take_one(stored, module, settings); });
  return weights;
}

}  // namespace genesis::models::hugging_face::quantized
