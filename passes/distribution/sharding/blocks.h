// Blocks of which a sharded dimension is composed, such as queries, keys and values side by side: every rank has a shard of each.
#pragma once

#include <fmt/core.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <set>
#include <string>

#include "passes/distribution/sharding/factor.h"

namespace genesis::passes {

// A position in a dimension as a fraction of its size, which is the same in all dimensions that count the same things.
struct Fraction {
  int64_t above, below;
  Fraction(int64_t a, int64_t b) : above(a / std::gcd(a, b)), below(b / std::gcd(a, b)) {}
  auto operator<=>(const Fraction& other) const { return above * other.below <=> other.above * below; }
  bool operator==(const Fraction&) const = default;
};
// The positions between blocks; none if the dimension is one block.
using Cuts = std::set<Fraction>;

// Returns the cuts that a node needs in a dimension of this size.
inline Cuts cuts_of(const FactorMember& member, int64_t size) {
  Cuts cuts;
  for (const int64_t cut : member.cuts) cuts.insert({cut, size});
  return cuts;
}

// Returns the cuts between this many equal blocks.
inline Cuts equal_cuts(int64_t blocks) {
  Cuts cuts;
  for (int64_t i = 1; i < blocks; ++i) cuts.insert({i, blocks});
  return cuts;
}
inline bool are_equal_blocks(const Cuts& cuts) {
  return cuts == equal_cuts(static_cast<int64_t>(cuts.size()) + 1);
}

// Returns whether the node composes a dimension of several, or takes a block out of one.
inline bool composes(const Factor& factor) {
  return std::any_of(factor.members.begin(), factor.members.end(),
                     [&](const FactorMember& m) { return m.numbering != factor.members[0].numbering; });
}

// Returns whether the dimension has exactly the member's cuts. For a slice, blocks other than its own may be cut further.
inline bool has_cuts_of(const FactorMember& member, const Cuts& cuts, int64_t size) {
  if (member.taken.empty()) return cuts == cuts_of(member, size);
  const Fraction begin(member.taken[0], size), end(member.taken[1], size);
  return std::none_of(cuts.begin(), cuts.end(),
                      [&](const Fraction& cut) { return begin < cut && cut < end; });
}

// Returns whether the ranks can share each block of a dimension equally.
inline bool are_divided(int64_t size, const Cuts& cuts, int64_t ranks) {
  int64_t before = 0;
  const auto is_block_divided = [&](const Fraction& end) {
    const int64_t elements = size * end.above / end.below - before;
    before += elements;
    return size * end.above % end.below == 0 && elements % ranks == 0;
  };
  return std::all_of(cuts.begin(), cuts.end(), is_block_divided) && is_block_divided({1, 1});
}

// Returns advice on the number of ranks: the nearest numbers below and above that divide a size.
inline std::string advice_on_ranks(int64_t ranks, int64_t size) {
  const int64_t most = std::min(2 * ranks, size);
  int64_t below = std::max<int64_t>(1, std::min(ranks, size)), above = ranks + 1;
  while (size % below != 0) --below;
  while (above <= most && size % above != 0) ++above;
  return above <= most ? fmt::format(" (take {} or {})", below, above) : fmt::format(" (take {})", below);
}

}  // namespace genesis::passes
