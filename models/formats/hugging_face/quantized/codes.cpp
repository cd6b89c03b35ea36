#include "models/formats/hugging_face/quantized/codes.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace genesis::models::hugging_face::quantized {
namespace {

uint32_t word_at(const Tensor& words, int64_t i) {
  uint32_t word;
  std::memcpy(&word, words.data() + 4 * i, sizeof(word));
  return word;
}

uint8_t low_bits(uint64_t from, int bits) { return static_cast<uint8_t>(from & ((1U << bits) - 1)); }

// Reads codes from a string of bits whose words are `stride` apart in memory.
class BitString {
 public:
  BitString(const Tensor& words, int64_t first, int64_t stride, int bits)
      : words_(words), at_(first), stride_(stride), bits_(bits) {}

  uint8_t next() {
    if (available_ < bits_) {
      held_ |= static_cast<uint64_t>(word_at(words_, at_)) << available_;
      at_ += stride_;
      available_ += 32;
    }
    const uint8_t code = low_bits(held_, bits_);
    held_ >>= bits_;
    available_ -= bits_;
    return code;
  }

 private:
  const Tensor& words_;
  int64_t at_, stride_;
  int bits_, available_ = 0;
  uint64_t held_ = 0;
};

// The codes of 32 / bits rows of the stored matrix, for bits that divide 32. Reads words of neighboring rows of the weight together,
// because they are neighbors in memory.
void read_down(const Tensor& words, int64_t all_rows, int64_t columns, int bits, int64_t first, int64_t count,
               uint8_t* codes) {
  const int64_t each = 32 / bits;
  for (int64_t column = 0; column < columns; column += each)
    for (int64_t row = 0; row < count; ++row) {
      uint32_t word = word_at(words, column / each * all_rows + first + row);
      uint8_t* to = codes + row * columns + column;
      for (int64_t i = 0; i < each; ++i, word >>= bits) to[i] = low_bits(word, bits);
    }
}

struct Range {
  int64_t first, end;
};

constexpr int64_t kAwqTile = 256;

// Reads the codes of up to eight rows that share words, through a tile in cache: their places in `codes` may be so far apart that
// they would drive each other out of it.
void read_awq_tile(const Tensor& words, const Range& of_rows, int64_t rows, const Range& of_columns,
                   uint8_t* codes, int64_t stride) {
  constexpr int kShiftOfRow[8] = {0, 16, 4, 20, 8, 24, 12, 28};  // 4 * i for the i with kAwqOrder[i] == row
  uint8_t tile[8][kAwqTile];
  for (int64_t column = of_columns.first; column < of_columns.end; ++column) {
    const uint32_t word = word_at(words, (column * rows + of_rows.first) / 8);
    for (int row = 0; row < 8; ++row)
      tile[row][column - of_columns.first] = low_bits(word >> kShiftOfRow[row], 4);
  }
  for (int64_t row = of_rows.first; row < of_rows.end; ++row)
    std::memcpy(codes + (row - of_rows.first) * stride, tile[row % 8],
                static_cast<size_t>(of_columns.end - of_columns.first));
}

}  // namespace

ReadCodes bytes_as_codes(Tensor bytes, int64_t columns) {
  return [bytes = std::move(bytes), columns](int64_t first, int64_t count, uint8_t* codes) {
    std::memcpy(codes, bytes.data() + first * columns, static_cast<size_t>(count * columns));
  };
}

ReadCodes nibbles_as_codes(Tensor bytes, int64_t columns, NibbleOrder order) {
  return [bytes = std::move(bytes), columns, order](int64_t first, int64_t count, uint8_t* codes) {
    const int64_t begin = first * columns, end = begin + count * columns;
    const int shift_of_even = order == NibbleOrder::kLowFirst ? 0 : 4;
    const auto* from = reinterpret_cast<const uint8_t*>(bytes.data());
    int64_t i = begin;
    if (i % 2 != 0 && i < end) *codes++ = from[i / 2] >> (4 - shift_of_even) & 15, ++i;
    for (; i + 1 < end; i += 2, codes += 2) {
      const uint8_t both = from[i / 2];
      codes[0] = both >> shift_of_even & 15;
      codes[1] = both >> (4 - shift_of_even) & 15;
    }
    if (i < end) *codes = from[i / 2] >> shift_of_even & 15;
  };
}

ReadCodes words_along_rows(Tensor words, int64_t row_words, int64_t columns, int bits, bool cross_words) {
  return [words = std::move(words), row_words, columns, bits, cross_words](int64_t first, int64_t count,
                                                                           uint8_t* codes) {
    const int64_t each = 32 / bits;
    for (int64_t row = first; row < first + count; ++row, codes += columns) {
      if (cross_words) {
        BitString string(words, row * row_words, 1, bits);
        for (int64_t i = 0; i < columns; ++i) codes[i] = string.next();
      } else {
        for (int64_t i = 0; i < columns; ++i)
          codes[i] =
              low_bits(word_at(words, row * row_words + i / each) >> static_cast<int>(i % each) * bits, bits);
      }
    }
  };
}

ReadCodes words_down_columns(Tensor words, int64_t rows, int64_t columns, int bits) {
  return [words = std::move(words), rows, columns, bits](int64_t first, int64_t count, uint8_t* codes) {
    if (32 % bits == 0) return read_down(words, rows, columns, bits, first, count, codes);
    for (int64_t row = first; row < first + count; ++row, codes += columns) {
      BitString string(words, row, rows, bits);
      for (int64_t i = 0; i < columns; ++i) codes[i] = string.next();
    }
  };
}

ReadCodes awq_words(Tensor words, int64_t rows, int64_t columns) {
  return [words = std::move(words), rows, columns](int64_t first, int64_t count, uint8_t* codes) {
    for (int64_t row = first; row < first + count;) {
      const int64_t end = std::min(row / 8 * 8 + 8, first + count);
      for (int64_t column = 0; column < columns; column += kAwqTile)
        read_awq_tile(words, {row, end}, rows, {column, std::min(column + kAwqTile, columns)},
                      codes + (row - first) * columns + column, columns);
      row = end;
    }
  };
}

}  // namespace genesis::models::hugging_face::quantized
