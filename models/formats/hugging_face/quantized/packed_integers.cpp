#include "models/formats/hugging_face/quantized/packed_integers.h"

#include <algorithm>

namespace genesis::models::hugging_face::quantized {
namespace {

// Returns the groups of an index of columns; empty if they are neighbors, as they are without the index.
std::vector<int32_t> group_of_columns(const StoredTensor& index, int64_t columns, const Groups& groups) {
  if (index.dtype != "I32" || index.numel() != columns)
    fail("its g_idx is {}, expected I32[{}]", index.to_string(), columns);
  const auto all = index.bytes.as<int32_t>();
  if (std::ranges::all_of(all, [](int32_t group) { return group == -1; })) return {};  // not used
  for (size_t i = 0; i < all.size(); ++i)
    if (all[i] < 0 || all[i] >= groups.count)
      fail("its g_idx names group {} for input {}, and there are {} groups", all[i], i, groups.count);
  bool are_neighbors = true;
  for (size_t i = 0; are_neighbors && i < all.size(); ++i)
    are_neighbors = all[i] == static_cast<int64_t>(i) / groups.size;
  return are_neighbors ? std::vector<int32_t>() : std::vector(all.begin(), all.end());
}

}  // namespace

int64_t words_for(int64_t count, int bits, bool cross_words) {
  if (cross_words) return count / 32 * bits + (count % 32 * bits + 31) / 32;
  const int64_t each = 32 / bits;
  return count / each + (count % each != 0 ? 1 : 0);
}

std::vector<float> all_codes(const ReadCodes& codes, int64_t rows, int64_t columns, float more,
                             bool transposes) {
  std::vector<uint8_t> row(static_cast<size_t>(columns));
  std::vector<float> numbers(static_cast<size_t>(rows * columns));
  for (int64_t i = 0; i < rows; ++i) {
    codes(i, 1, row.data());
    for (int64_t j = 0; j < columns; ++j)
      numbers[static_cast<size_t>(transposes ? j * rows + i : i * columns + j)] =
          static_cast<float>(row[static_cast<size_t>(j)]) + more;
  }
  return numbers;
}

std::vector<float> transposed_numbers(const StoredTensor& matrix) {
  const auto rows = static_cast<size_t>(matrix.size(0)), columns = static_cast<size_t>(matrix.size(1));
  const std::vector<float> stored = matrix.numbers();
  std::vector<float> numbers(stored.size());
  for (size_t i = 0; i < rows; ++i)
    for (size_t j = 0; j < columns; ++j) numbers[j * rows + i] = stored[i * columns + j];
  return numbers;
}

void set_groups(EncodedWeight& weight, const Groups& groups, const std::optional<StoredTensor>& of_column) {
  const int64_t needed = weight.columns / groups.size + (weight.columns % groups.size != 0 ? 1 : 0);
  if (needed != groups.count)
    fail("{} inputs in groups of {} have {} groups, and its scales have {}", weight.columns, groups.size,
         needed, groups.count);
  weight.blocks.in_row = groups.count;
  weight.blocks.columns_each = groups.size;
  if (of_column) weight.blocks.of_column = group_of_columns(*of_column, weight.columns, groups);
}

}  // namespace genesis::models::hugging_face::quantized
