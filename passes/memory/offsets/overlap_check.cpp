// Sweeps over time and keeps the byte ranges in use in an ordered map. Invariant: ranges in the map never overlap, so a new
// buffer only needs to be compared with its two neighbors.
#include "passes/memory/offsets/overlap_check.h"

#include <algorithm>
#include <map>
#include <vector>

#include "schema/core/error.h"

namespace genesis::passes {
namespace {

struct Event {
  int64_t time;
  bool is_start;  // ends come first at equal times: lifetimes are half-open
  size_t buffer;

  bool operator<(const Event& other) const {
    if (time != other.time) return time < other.time;
    if (is_start != other.is_start) return !is_start;
    return buffer < other.buffer;
  }
};

std::vector<Event> sorted_events(std::span<const PlanBuffer> buffers) {
  std::vector<Event> events;
  events.reserve(buffers.size() * 2);
  for (size_t i = 0; i < buffers.size(); ++i) {
    if (buffers[i].size <= 0 || buffers[i].lower >= buffers[i].upper) continue;
    events.push_back({buffers[i].lower, true, i});
    events.push_back({buffers[i].upper, false, i});
  }
  std::sort(events.begin(), events.end());
  return events;
}

}  // namespace

std::optional<std::pair<size_t, size_t>> find_overlap(std::span<const PlanBuffer> buffers,
                                                      std::span<const int64_t> offsets) {
  GENESIS_ASSERT(buffers.size() == offsets.size());
  std::map<int64_t, size_t> in_use;  // offset -> buffer
  for (const Event& event : sorted_events(buffers)) {
    const int64_t offset = offsets[event.buffer];
    if (!event.is_start) {
      in_use.erase(offset);
      continue;
    }
    const auto above = in_use.lower_bound(offset);
    // Uses differences instead of sums: offset + size may overflow int64 in a wrong plan.
    if (above != in_use.end() && above->first - offset < buffers[event.buffer].size)
      return std::minmax(event.buffer, above->second);
    if (above != in_use.begin()) {
      const auto below = std::prev(above);
      if (offset - below->first < buffers[below->second].size)
        return std::minmax(event.buffer, below->second);
    }
    in_use.emplace(offset, event.buffer);
  }
  return std::nullopt;
}

}  // namespace genesis::passes
