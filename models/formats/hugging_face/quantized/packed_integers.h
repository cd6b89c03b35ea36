// Weights as integers of a few bits in words of 32 bits: what GPTQ, AWQ and compressed-tensors have in common.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "models/formats/hugging_face/quantized/encoded_weight.h"
#include "models/formats/hugging_face/quantized/stored_tensors.h"

namespace genesis::models::hugging_face::quantized {

// Returns how many words hold `count` codes; if they do not cross words, a word has 32 / bits of them.
int64_t words_for(int64_t count, int bits, bool cross_words);

// Reads all codes at once, [rows, columns], as numbers plus `more`; with `transposes` as [columns, rows].
std::vector<float> all_codes(const ReadCodes& codes, int64_t rows, int64_t columns, float more,
                             bool transposes);

// Returns the numbers of a matrix [rows, columns] as [columns, rows].
std::vector<float> transposed_numbers(const StoredTensor& matrix);

// Sets the groups of columns: `count` groups of `size` columns each (at least 1), which are neighbors unless `of_column`, i32[columns],
// says otherwise. Throws Error for another number of groups than the columns need, and for a group that does not exist.
struct Groups {
  int64_t size = 0, count = 0;
};
void set_groups(EncodedWeight& weight, const Groups& groups, const std::optional<StoredTensor>& of_column);

}  // namespace genesis::models::hugging_face::quantized
