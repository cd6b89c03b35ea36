// Unpacks the codes of a quantized weight from the layouts that quantization methods store them in. A code is one byte; a table of
// the weight says which number it means.
#pragma once

#include <cstdint>
#include <functional>

#include "schema/core/tensor.h"

namespace genesis::models::hugging_face::quantized {

// Writes the codes of the rows [first, first + count) of a weight [rows, columns] to codes[count, columns]. Calls of several
// threads at once are allowed.
using ReadCodes = std::function<void(int64_t first, int64_t count, uint8_t* codes)>;

// bytes[rows, columns]
ReadCodes bytes_as_codes(Tensor bytes, int64_t columns);

// Nibbles in the order of the elements of the whole weight: bytes[rows * columns / 2], rounded up.
enum class NibbleOrder : uint8_t { kLowFirst, kHighFirst };
ReadCodes nibbles_as_codes(Tensor bytes, int64_t columns, NibbleOrder order);

// 32-bit words along each row: words[rows, row_words]. Code i has the bits from i * bits on. If codes cross words, the words are
// one string of bits; otherwise a word has 32 / bits codes, and the rest of its bits are unused.
ReadCodes words_along_rows(Tensor words, int64_t row_words, int64_t columns, int bits, bool cross_words);

// 32-bit words down each column of the stored matrix words[columns * bits / 32, rows], which is transposed: row r of the weight
// is column r of the words, as one string of bits.
ReadCodes words_down_columns(Tensor words, int64_t rows, int64_t columns, int bits);

// Words of eight codes with four bits, words[columns, rows / 8]: the codes of row 8 j + k are nibbles of the words in column j.
// Nibble i of a word belongs to row 8 j + kAwqOrder[i].
ReadCodes awq_words(Tensor words, int64_t rows, int64_t columns);
inline constexpr int kAwqOrder[8] = {0, 2, 4, 6, 1, 3, 5, 7};

}  // namespace genesis::models::hugging_face::quantized
