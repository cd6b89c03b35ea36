#include "models/formats/hugging_face/quantized/encoded_weight.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "schema/core/float16.h"
#include "schema/core/parallel.h"
#include "schema/core/type_limits.h"

namespace genesis::models::hugging_face::quantized {
namespace {

constexpr std::string_view kRemedy = "take bf16 or f32 as the model's dtype (--set dtype=bf16)";
constexpr int64_t kPiece = 64;  // values at a time: loops of a constant length are vectorized

using Piece = std::array<float, kPiece>;

// Rounds as f16(x) does, without branches, so that loops are vectorized. The sums round to nearest even: with a number whose last bit
// is that of f16's smallest numbers, or with half of the last bit of the result.
f16 nearest_f16(float x) {
  constexpr uint32_t kInfinity = 0x7F800000, kTooLarge = 0x47800000, kNormal = 0x38800000,
                     kSmallest = 0x3F000000;
  const uint32_t bits = std::bit_cast<uint32_t>(x), magnitude = bits & 0x7FFFFFFF;
  const uint32_t small =
      std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + std::bit_cast<float>(kSmallest)) - kSmallest;
  const uint32_t normal = (magnitude - 0x38000000 + 0xFFF + (magnitude >> 13 & 1)) >> 13;
  const uint32_t large = magnitude > kInfinity ? 0x7E00 : 0x7C00;
  const uint32_t rounded = magnitude >= kTooLarge ? large : magnitude < kNormal ? small : normal;
  f16 result;
  result.bits = static_cast<uint16_t>(rounded | (bits >> 16 & 0x8000));
  return result;
}

template <class T>
T nearest(float x) {
  if constexpr (std::is_same_v<T, f16>)
    return nearest_f16(x);
  else
    return static_cast<T>(x);
}

// Decodes rows of a weight to T. An instance belongs to one thread.
template <class T>
class RowDecoder {
 public:
  RowDecoder(const EncodedWeight& weight, const std::vector<float>& scales, const std::vector<float>& zeros)
      : weight_(weight), blocks_(weight.blocks), all_scales_(scales), all_zeros_(zeros) {}

  void decode(int64_t row, const uint8_t* codes, T* to) {
    const int64_t blocks = row / blocks_.rows_each * blocks_.in_row;
    held_ = -1;
    for (int64_t first = 0; first < weight_.columns; first += kPiece) {
      const int64_t count = std::min(kPiece, weight_.columns - first);
      take_blocks(blocks, first, count);
      if (count == kPiece) {
        decode_piece(codes + first, to + first);
      } else {  // the last codes are repeated to a whole piece
        std::array<uint8_t, kPiece> more;
        std::array<T, kPiece> decoded;
        for (int64_t i = 0; i < kPiece; ++i)
          more[static_cast<size_t>(i)] = codes[first + std::min(i, count - 1)];
        decode_piece(more.data(), decoded.data());
        std::copy_n(decoded.begin(), count, to + first);
      }
    }
  }

 private:
  void set(size_t first, size_t end, int64_t block) {
    const auto at = static_cast<size_t>(block);
    std::fill(scales_.begin() + first, scales_.begin() + end, all_scales_[at]);
    std::fill(zeros_.begin() + first, zeros_.begin() + end, all_zeros_.empty() ? 0.0f : all_zeros_[at]);
  }

  // Sets the scale and the zero of each value of a piece.
  void take_blocks(int64_t row_begin, int64_t first, int64_t count) {
    if (!blocks_.of_column.empty()) {
      for (int64_t i = 0; i < kPiece; ++i) {
        const auto column = static_cast<size_t>(first + std::min(i, count - 1)), at = static_cast<size_t>(i);
        set(at, at + 1, row_begin + blocks_.of_column[column]);
      }
      return;
    }
    const int64_t block = first / blocks_.columns_each, each = blocks_.columns_each;
    if (held_ == block && first + count <= (block + 1) * each) return;
    for (int64_t i = 0, at = block; i < count; ++at) {
      const int64_t end = std::min(count, (at + 1) * each - first);
      set(static_cast<size_t>(i), static_cast<size_t>(end == count ? kPiece : end), row_begin + at);
      i = end;
    }
    held_ = first + kPiece <= (block + 1) * each ? block : -1;
  }

  // Throws Error for a finite value that f16 cannot hold.
  static void check_range(const Piece& x, const f16* rounded) {
    uint32_t all_ones = 0;  // not 0: an exponent has all bits
    for (size_t i = 0; i < kPiece; ++i) all_ones |= (rounded[i].bits & 0x7C00) == 0x7C00 ? 1 : 0;
    for (size_t i = 0; all_ones != 0 && i < kPiece; ++i)
      if (const float infinite = rounded[i]; !std::isfinite(infinite))
        check_f16_range(x[i], infinite, kRemedy);
  }

  void decode_piece(const uint8_t* codes, T* to) const {
    Piece x;
    for (size_t i = 0; i < kPiece; ++i) x[i] = weight_.numbers[codes[i]];
    for (size_t i = 0; i < kPiece; ++i) x[i] = (x[i] - zeros_[i]) * scales_[i] * weight_.factor;
    for (size_t i = 0; i < kPiece; ++i) to[i] = nearest<T>(x[i]);
    if constexpr (std::is_same_v<T, f16>) check_range(x, to);
  }

  const EncodedWeight& weight_;
  const Blocks& blocks_;
  const std::vector<float>&all_scales_, &all_zeros_;
  int64_t held_ = -1;  // the block of all of the piece before, if it was one; -1: none
  Piece scales_{}, zeros_{};
};

template <class T>
void decode_rows(const EncodedWeight& weight, T* to) {
  const std::vector<float> scales = weight.blocks.scales();
  const std::vector<float> zeros = weight.blocks.zeros ? weight.blocks.zeros() : std::vector<float>();
  in_parallel(weight.rows, rows_of_tile(weight), [&](int64_t first, int64_t last) {
    std::vector<uint8_t> codes(static_cast<size_t>((last - first) * weight.columns));
    weight.codes(first, last - first, codes.data());
    RowDecoder<T> decoder(weight, scales, zeros);
    for (int64_t row = first; row < last; ++row)
      decoder.decode(row, codes.data() + (row - first) * weight.columns, to + row * weight.columns);
  });
}

// Swaps the last two axes of [experts, rows, columns].
Tensor with_columns_first(const Tensor& stored, const Shape& shape) {
  const int64_t experts = shape[0].value(), columns = shape[1].value(), rows = shape[2].value();
  const auto width = static_cast<int64_t>(size_of(stored.dtype()));
  std::byte* data;
  Tensor result = Tensor::uninitialized({stored.dtype(), shape}, &data);
  in_parallel(experts * columns, 16, [&](int64_t first, int64_t last) {
    for (int64_t row = 0; row < rows; ++row)  // neighbors in memory are read together
      for (int64_t i = first; i < last; ++i)
        std::copy_n(stored.data() + ((i / columns * rows + row) * columns + i % columns) * width, width,
                    data + (i * rows + row) * width);
  });
  return result;
}

}  // namespace

int64_t rows_of_tile(const EncodedWeight& weight) {
  constexpr int64_t kTileBytes = 128 << 10, kMin = 8, kMax = 64;
  return std::clamp(kTileBytes / std::max<int64_t>(weight.columns, 1) / kMin * kMin, kMin, kMax);
}

Tensor decode(const EncodedWeight& weight, DType dtype) {
  std::byte* data;
  const Shape stored = Shape::of({weight.rows, weight.columns});
  const Tensor result = Tensor::uninitialized({dtype, weight.is_transposed ? stored : weight.shape}, &data);
  dispatch(dtype, [&]<class T>(TypeTag<T>) {
    if constexpr (std::is_same_v<T, float> || std::is_same_v<T, bf16> || std::is_same_v<T, f16>)
      decode_rows(weight, reinterpret_cast<T*>(data));
    else
      fail("quantized weights become f32, bf16 or f16, not {}", name_of(dtype));
  });
  return weight.is_transposed ? with_columns_first(result, weight.shape) : result;
}

}  // namespace genesis::models::hugging_face::quantized
