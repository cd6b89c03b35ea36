#include "backends/cpu/gemm/row_groups.h"

#include <algorithm>
#include <cstring>

namespace genesis::cpu {

const int64_t* checked_offsets(const TensorView& offsets, int64_t rows, Fault* fault) {
  const auto* at = offsets.as<const int64_t>();
  for (int64_t g = 0; g < offsets.numel(); ++g) {
    if (at[g] < 0 || at[g] > rows) {
      fault->report(at[g], rows + 1);
      return nullptr;
    }
    if (g > 0 && at[g] < at[g - 1]) {
      fault->report("offsets of groups decrease; they must be sums of the numbers of rows");
      return nullptr;
    }
  }
  return at;
}

int64_t list_pieces(const int64_t* offsets, int64_t groups, int64_t most, RowGroup* pieces) {
  int64_t count = 0;
  for (int64_t g = 0; g < groups; ++g)
    for (int64_t first = offsets[g]; first < offsets[g + 1]; first += most)
      pieces[count++] = {g, first, std::min(most, offsets[g + 1] - first)};
  return count;
}

int64_t max_pieces(int64_t rows, int64_t groups, int64_t most) {
  return std::min(rows, rows / most + std::min(groups, rows));
}

void clear_other_rows(const int64_t* offsets, int64_t groups, const TensorView& c) {
  auto* data = c.as<std::byte>();
  if (!offsets) {
    std::memset(data, 0, static_cast<size_t>(c.bytes()));
    return;
  }
  const int64_t row_bytes = c.dim(-1) * static_cast<int64_t>(size_of(c.dtype)),
                first = offsets[0] * row_bytes, last = offsets[groups] * row_bytes;
  std::memset(data, 0, static_cast<size_t>(first));
  std::memset(data + last, 0, static_cast<size_t>(c.bytes() - last));
}

}  // namespace genesis::cpu
