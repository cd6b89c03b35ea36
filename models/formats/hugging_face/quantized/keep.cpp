#include "models/formats/hugging_face/quantized/keep.h"

#include <algorithm>
#include <atomic>
#include <cmath>

#include "schema/core/float16.h"
#include "schema/core/parallel.h"
#include "schema/encoding/quantized_formats.h"

namespace genesis::models::hugging_face::quantized {
namespace {

struct Range {
  float least, greatest;
};

// A format that a weight of integers may be kept in. The smallest comes first.
struct Row {
  WeightFormat format;
  Range range;
  void (*put)(const int* quants, std::byte* to);  // writes a block of 32
};

void put_q4(const int* quants, std::byte* to) {
  for (int i = 0; i < 16; ++i)
    to[i] = static_cast<std::byte>((quants[i] + kQ4Zero) | (quants[i + 16] + kQ4Zero) << 4);
}

void put_q8(const int* quants, std::byte* to) {
  for (int i = 0; i < kQuantBlock; ++i) to[i] = static_cast<std::byte>(quants[i]);
}

constexpr Row kRows[] = {{WeightFormat::kQ4, {-8, 7}, put_q4}, {WeightFormat::kQ8, {-127, 127}, put_q8}};

bool has_whole_blocks(const EncodedWeight& weight) {
  const Blocks& blocks = weight.blocks;
  const bool are_whole = blocks.in_row == 1 || blocks.columns_each % kQuantBlock == 0;
  return weight.has_integers && weight.factor == 1 && weight.shape.rank() == 2 && !weight.is_transposed &&
         weight.columns == weight.shape[1].value() && weight.columns > 0 && weight.rows > 0 &&
         weight.columns % kQuantBlock == 0 && blocks.of_column.empty() && are_whole;
}

// Returns whether f16 holds all scales, and `meant` all values.
bool are_exact(const std::vector<float>& scales, float largest_quant, DType meant) {
  constexpr float kGreatest = 65504;
  const float limit = meant == DType::f16 ? kGreatest / largest_quant : kGreatest;
  return std::ranges::all_of(scales, [&](float scale) {
    return std::abs(scale) <= limit && static_cast<float>(f16(scale)) == scale;
  });
}

// The numbers of a weight's blocks, read once.
struct Numbers {
  std::vector<float> scales, zeros;
  explicit Numbers(const Blocks& blocks) : scales(blocks.scales()) {
    if (blocks.zeros) zeros = blocks.zeros();
  }
  float zero(int64_t block) const { return zeros.empty() ? 0 : zeros[static_cast<size_t>(block)]; }
};

class Keeper {
 public:
  Keeper(const EncodedWeight& weight, const Numbers& numbers) : weight_(weight), numbers_(numbers) {}

  // Returns no values if one of them is out of range.
  EncodedValues run(const Row& row, DType meant) const {
    const StateFormat& format = quantized_format(row.format, meant);
    std::array<std::byte*, 2> parts{};
    EncodedValues values{&format, {}};
    for (size_t i = 0; i < parts.size(); ++i)
      values.parts.push_back(Tensor::uninitialized(format.part_type(i, {meant, weight_.shape}), &parts[i]));
    std::atomic<bool> fits = true;
    in_parallel(weight_.rows, rows_of_tile(weight_), [&](int64_t first, int64_t last) {
      std::vector<uint8_t> codes(static_cast<size_t>((last - first) * weight_.columns));
      weight_.codes(first, last - first, codes.data());
      for (int64_t i = first; i < last && fits; ++i)
        if (!put_row(row, i, codes.data() + (i - first) * weight_.columns, parts)) fits = false;
    });
    return fits ? values : EncodedValues{};
  }

 private:
  bool put_row(const Row& row, int64_t index, const uint8_t* codes,
               const std::array<std::byte*, 2>& parts) const {
    const Blocks& blocks = weight_.blocks;
    const int64_t in_row = weight_.columns / kQuantBlock, at = index * in_row,
                  first = index / blocks.rows_each * blocks.in_row;
    for (int64_t i = 0; i < in_row; ++i) {
      const int64_t block = first + i * kQuantBlock / blocks.columns_each;
      const float zero = numbers_.zero(block);
      int quants[kQuantBlock];
      for (int j = 0; j < kQuantBlock; ++j) {
        const float quant = weight_.numbers[codes[i * kQuantBlock + j]] - zero;
        if (quant < row.range.least || quant > row.range.greatest) return false;
        quants[j] = static_cast<int>(quant);
      }
      row.put(quants, parts[0] + (at + i) * quant_block_bytes(row.format));
      reinterpret_cast<f16*>(parts[1])[at + i] = f16(numbers_.scales[static_cast<size_t>(block)]);
    }
    return true;
  }

  const EncodedWeight& weight_;
  const Numbers& numbers_;
};

// Returns the quants that the codes and zeros of a weight may have.
Range range_of(const EncodedWeight& weight, const Numbers& numbers) {
  const auto [least, greatest] = std::ranges::minmax(weight.numbers);
  if (numbers.zeros.empty()) return {least, greatest};
  const auto [least_zero, greatest_zero] = std::ranges::minmax(numbers.zeros);
  return {least - greatest_zero, greatest - least_zero};
}

}  // namespace

EncodedValues kept(const EncodedWeight& weight, DType meant) {
  if (!has_whole_blocks(weight)) return {};
  const Numbers numbers(weight.blocks);
  const Range range = range_of(weight, numbers);
  const Keeper keeper(weight, numbers);
  // A range that misses a format by one is tried: symmetric quantization of 8 bits rarely has the quant -128.
  for (const Row& row : kRows)
    if (range.least >= row.range.least - 1 && range.greatest <= row.range.greatest + 1 &&
        are_exact(numbers.scales, -row.range.least, meant))
      if (EncodedValues values = keeper.run(row, meant)) return values;
  return {};
}

}  // namespace genesis::models::hugging_face::quantized
