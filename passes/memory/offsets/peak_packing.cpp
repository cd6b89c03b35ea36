#include "passes/memory/offsets/peak_packing.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <vector>

#include "passes/memory/offsets/placed_blocks.h"

namespace genesis::passes {
namespace {

// Decides which block of the peak is placed lowest.
enum class Stack { kLongest, kFirstToStart, kLastToEnd, kFarthestFromPeak };

struct Manner {
  Stack stack;
  bool two_sided;  // blocks of the peak that live mostly after it are placed at the ceiling, the others at the bottom
  bool nested;     // among equally tight blocks, those nearer to the peak first; otherwise the largest area first
  bool hang;       // blocks that do not live at the peak take the highest place instead of the lowest
};

class PeakPacking {
 public:
  PeakPacking(const Problem& problem, int64_t ceiling)
      : problem_(problem), ceiling_(ceiling), conflicts_(count_conflicts(problem)) {
    peak_ = static_cast<int32_t>(std::ranges::max_element(problem.load) - problem.load.begin());
    for (const Block& b : problem.blocks)
      tightest_.push_back(*std::max_element(problem.load.begin() + b.first, problem.load.begin() + b.last));
  }

  std::optional<Solution> pack(const Manner& manner) const {
    Solution solution{std::vector<int64_t>(problem_.blocks.size()), 0};
    PlacedBlocks placed(problem_);
    int64_t count = 0;
    for (const int32_t i : order_of(manner)) {
      const auto expected = conflicts_[i] * count++ / static_cast<int64_t>(problem_.blocks.size());
      const auto offset = hangs(problem_.blocks[i], manner) ? highest_place(placed, i, expected)
                                                            : lowest_place(placed, i, expected);
      if (!offset) return std::nullopt;
      solution.offsets[i] = *offset;
      solution.height = std::max(solution.height, *offset + problem_.blocks[i].size);
      placed.insert(i, *offset);
    }
    return solution;
  }

  int64_t cost() const {
    const int64_t pairs = std::accumulate(conflicts_.begin(), conflicts_.end(), int64_t{0}) / 2;
    return PlacedBlocks::pass_cost(static_cast<int64_t>(problem_.blocks.size()), pairs);
  }

 private:
  bool at_peak(const Block& b) const { return b.first <= peak_ && peak_ < b.last; }

  // Fractions of the time before and after the peak in which a block of the peak lives.
  double share_before(const Block& b) const { return double(peak_ - b.first) / std::max(1, peak_); }
  double share_after(const Block& b) const {
    return double(b.last - 1 - peak_) / std::max(1, problem_.sections() - 1 - peak_);
  }

  bool hangs(const Block& b, const Manner& manner) const {
    if (!at_peak(b)) return manner.hang;
    return manner.two_sided && share_after(b) > 2 * share_before(b);
  }

  using Key = std::array<double, 3>;

  Key peak_key(const Block& b, Stack stack) const {
    const double lifetime = b.last - b.first;
    switch (stack) {
      case Stack::kLongest:
        return {0, -lifetime, 0};
      case Stack::kFirstToStart:
        return {0, double(b.first), -lifetime};
      case Stack::kLastToEnd:
        return {0, -double(b.last), -lifetime};
      default:
        return {0, -std::min(share_before(b), share_after(b)), -lifetime};
    }
  }

  Key key(size_t i, const Manner& manner) const {
    const Block& b = problem_.blocks[i];
    if (at_peak(b)) return peak_key(b, manner.stack);
    const double area = double(b.size) * (b.last - b.first);
    const double distance = b.first > peak_ ? b.first : -b.last;
    return {1, -double(tightest_[i]), manner.nested ? distance : -area};
  }

  std::vector<int32_t> order_of(const Manner& manner) const {
    std::vector<Key> keys;
    for (size_t i = 0; i < problem_.blocks.size(); ++i) keys.push_back(key(i, manner));
    std::vector<int32_t> order(keys.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(order, {}, [&](int32_t b) { return keys[b]; });
    return order;
  }

  std::optional<int64_t> lowest_place(PlacedBlocks& placed, int32_t block, int64_t expected) const {
    const int64_t size = problem_.blocks[block].size;
    int64_t top = 0;
    placed.visit_conflicts(block, expected, [&](int64_t offset, int64_t end) {
      if (offset - top >= size) return false;
      top = std::max(top, end);
      return true;
    });
    return ceiling_ - top >= size ? std::optional(top) : std::nullopt;
  }

  std::optional<int64_t> highest_place(PlacedBlocks& placed, int32_t block, int64_t expected) const {
    const int64_t size = problem_.blocks[block].size;
    int64_t top = 0;
    std::optional<int64_t> highest;
    const auto end_gap = [&](int64_t at) {
      if (at - top >= size) highest = at - size;
    };
    placed.visit_conflicts(block, expected, [&](int64_t offset, int64_t end) {
      end_gap(offset);
      top = std::max(top, end);
      return true;
    });
    end_gap(ceiling_);
    return highest;
  }

  const Problem& problem_;
  const int64_t ceiling_;
  std::vector<int64_t> conflicts_;
  std::vector<int64_t> tightest_;  // by block: the greatest load during its life
  int32_t peak_ = 0;
};

}  // namespace

std::optional<Solution> pack_by_peaks(const Problem& problem, int64_t ceiling, int64_t& budget) {
  const PeakPacking packing(problem, ceiling);
  const int64_t cost = packing.cost();
  for (const bool nested : {true, false})
    for (const Stack stack :
         {Stack::kFirstToStart, Stack::kLongest, Stack::kLastToEnd, Stack::kFarthestFromPeak})
      for (const bool two_sided : {true, false})
        for (const bool hang : {false, true}) {
          if (budget < cost) return std::nullopt;
          budget -= cost;
          if (auto solution = packing.pack({stack, two_sided, nested, hang})) return solution;
        }
  return std::nullopt;
}

}  // namespace genesis::passes
