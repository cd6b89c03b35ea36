#include "models/formats/gguf/keep.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstring>

#include "schema/core/parallel.h"
#include "schema/encoding/quantized_formats.h"

namespace genesis::models::gguf {
namespace {

using Parts = std::array<std::byte*, StateFormat::kMaxParts>;

// A type of GGUF and the format with the same blocks.
struct Row {
  std::string_view type;
  WeightFormat format;
  float largest;  // magnitude of a quant
  // Writes block `index` to the format's parts. Returns false if the format cannot hold it.
  bool (*put)(const std::byte* block, int64_t index, const Parts& parts);
};

constexpr int64_t kScaleBytes = 2;
constexpr float kGreatestF16 = 65504;

// Both types begin a block with its scale in f16; the quants follow in the format's order (schema/encoding/weight_format.h).
template <WeightFormat kFormat>
bool put_scale_and_quants(const std::byte* block, int64_t index, const Parts& parts) {
  constexpr int64_t kBytes = quant_block_bytes(kFormat);
  std::memcpy(parts[0] + index * kBytes, block + kScaleBytes, kBytes);
  std::memcpy(parts[1] + index * kScaleBytes, block, kScaleBytes);
  const auto* quants = block + kScaleBytes;
  return kFormat == WeightFormat::kQ4 ||
         std::find(quants, quants + kBytes, std::byte{0x80}) == quants + kBytes;
}

constexpr Row kRows[] = {{"Q8_0", WeightFormat::kQ8, 127, put_scale_and_quants<WeightFormat::kQ8>},
                         {"Q4_0", WeightFormat::kQ4, 8, put_scale_and_quants<WeightFormat::kQ4>}};

// Returns whether the values of all blocks are numbers of `meant`.
bool have_numbers(const Row& row, std::span<const f16> scales, DType meant) {
  const float limit = meant == DType::f16 ? kGreatestF16 / row.largest : kGreatestF16;
  return std::ranges::all_of(scales, [&](f16 scale) { return std::abs(static_cast<float>(scale)) <= limit; });
}

}  // namespace

EncodedValues kept(const GgufTensor& tensor, DType meant) {
  const auto* row = std::ranges::find(kRows, tensor.type->name, &Row::type);
  if (row == std::end(kRows) || tensor.shape.rank() < 2 || tensor.bytes.empty()) return {};
  const StateFormat& format = quantized_format(row->format, meant);
  const TensorType type{meant, tensor.shape};
  EncodedValues values{&format, {}};
  Parts parts{};
  for (size_t i = 0; i < format.parts.size(); ++i)
    values.parts.push_back(Tensor::uninitialized(format.part_type(i, type), &parts[i]));
  std::atomic<bool> fits = true;
  in_parallel(type.numel() / tensor.type->block_elements, 4096, [&](int64_t first, int64_t last) {
    bool all_fit = true;
    for (int64_t i = first; i < last; ++i)
      all_fit &= row->put(tensor.bytes.data() + i * tensor.type->block_bytes, i, parts);
    if (!all_fit) fits = false;
  });
  if (!have_numbers(*row, values.parts[1].as<f16>(), meant)) return {};  // widening says what is wrong
  return fits ? values : EncodedValues{};
}

}  // namespace genesis::models::gguf
