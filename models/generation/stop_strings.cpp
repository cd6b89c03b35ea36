#include "models/generation/stop_strings.h"

#include <algorithm>
#include <utility>

namespace genesis::text {

std::string StopStrings::add(std::string_view text) {
  held_ += text;
  size_t first = std::string::npos;
  for (const std::string& stop : stops_)
    if (const size_t at = held_.find(stop); at < first) {
      first = at;
      found_ = stop;
    }
  if (first != std::string::npos) return std::exchange(held_, {}).substr(0, first);
  const size_t sure = may_begin_at();
  std::string given = held_.substr(0, sure);
  held_.erase(0, sure);
  return given;
}

std::string StopStrings::finish() { return std::exchange(held_, {}); }

// Returns the position of the longest suffix of the text that is a prefix of a stop string.
size_t StopStrings::may_begin_at() const {
  size_t longest = 0;
  for (const std::string& stop : stops_)
    for (size_t size = std::min(stop.size() - 1, held_.size()); size > longest; --size)
      if (held_.ends_with(std::string_view(stop).substr(0, size))) longest = size;
  return held_.size() - longest;
}

}  // namespace genesis::text
