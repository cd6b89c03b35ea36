#include "models/data/packing.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace genesis::data {

std::vector<std::vector<size_t>> pack(const std::vector<int64_t>& lengths, int64_t row) {
  std::vector<size_t> order(lengths.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, [&](size_t a, size_t b) { return lengths[a] > lengths[b]; });
  std::vector<std::vector<size_t>> rows;
  std::multimap<int64_t, size_t> with_room;  // free tokens -> row
  for (const size_t sample : order) {
    const auto tightest = with_room.lower_bound(lengths[sample]);
    const bool fits = tightest != with_room.end();
    const size_t at = fits ? tightest->second : rows.size();
    const int64_t room = (fits ? tightest->first : row) - lengths[sample];
    if (fits)
      with_room.erase(tightest);
    else
      rows.emplace_back();
    rows[at].push_back(sample);
    if (room > 0) with_room.emplace(room, at);
  }
  return rows;
}

}  // namespace genesis::data
