#include "schema/graph/near_names.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <utility>

namespace genesis {
namespace {

// Returns the optimal string alignment distance: the Levenshtein distance with a swap of two neighbors as one edit. Keeps three
// rows of the table at a time.
size_t edits(const std::string& a, const std::string& b) {
  std::vector<size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  std::iota(last.begin(), last.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j - 1] + (a[i - 1] != b[j - 1]), last[j] + 1, row[j - 1] + 1});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], before[j - 2] + 1);
    }
    before.swap(last);
    last.swap(row);
  }
  return last[b.size()];
}

// Longer names get no suggestion: they are no typing mistakes, and the table would be large.
constexpr size_t kLongestName = 256;

// Returns a third of the letters, not counting leading dashes of an option. More edits would turn any short word into any other.
size_t most_edits(const std::string& name) {
  const size_t dashes = std::min(name.find_first_not_of('-'), name.size()), letters = name.size() - dashes;
  return letters < 3 ? 0 : (letters + 1) / 3;
}

}  // namespace

std::string near_names(const std::string& name, const std::vector<std::string>& names, size_t most) {
  std::vector<std::pair<size_t, std::string>> near;
  if (name.size() > kLongestName) return "";
  for (const std::string& candidate : names)
    if (const size_t distance = edits(name, candidate); distance <= most_edits(name))
      near.emplace_back(distance, candidate);
  std::ranges::sort(near);
  std::vector<std::string> found;
  for (size_t i = 0; i < near.size() && i < most; ++i) found.push_back(near[i].second);
  return fmt::format("{}", fmt::join(found, ", "));
}

std::string nearest_name(const std::string& name, const std::vector<std::string>& names) {
  std::string near;
  if (!name.empty())
    for (const std::string& candidate : names)
      if (candidate.starts_with(name) && (near.empty() || candidate.size() < near.size())) near = candidate;
  return near.empty() ? near_names(name, names, 1) : near;
}

std::string did_you_mean(const std::string& name, const std::vector<std::string>& names) {
  const std::string near = nearest_name(name, names);
  return near.empty() ? "" : fmt::format(" (did you mean '{}'?)", near);
}

}  // namespace genesis
