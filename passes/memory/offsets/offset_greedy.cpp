// Uses orders that the literature on static memory planning has found useful; none is best for all problems, and together they
// cost little.
#include "passes/memory/offsets/offset_greedy.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "passes/memory/offsets/placed_blocks.h"

namespace genesis::passes {
namespace {

// The top of the placed blocks, per section. Setting a range takes O(log n).
class Skyline {
 public:
  explicit Skyline(int32_t sections) {
    while (leaves_ < sections) leaves_ *= 2;
    top_.assign(static_cast<size_t>(leaves_) * 2, 0);
    whole_.assign(static_cast<size_t>(leaves_) * 2, 0);
  }

  int64_t max(int32_t first, int32_t last) const { return max(1, 0, leaves_, first, last); }
  void raise(int32_t first, int32_t last, int64_t to) { raise(1, 0, leaves_, first, last, to); }

 private:
  // A range is only raised above its own maximum, so a raise of a whole node need not be passed down to its children.
  int64_t max(int32_t node, int32_t low, int32_t high, int32_t first, int32_t last) const {
    if (last <= low || high <= first) return 0;
    if (first <= low && high <= last) return top_[node];
    const int32_t middle = (low + high) / 2;
    return std::max({whole_[node], max(node * 2, low, middle, first, last),
                     max(node * 2 + 1, middle, high, first, last)});
  }

  void raise(int32_t node, int32_t low, int32_t high, int32_t first, int32_t last, int64_t to) {
    if (last <= low || high <= first) return;
    top_[node] = std::max(top_[node], to);
    if (first <= low && high <= last) {
      whole_[node] = std::max(whole_[node], to);
      return;
    }
    const int32_t middle = (low + high) / 2;
    raise(node * 2, low, middle, first, last, to);
    raise(node * 2 + 1, middle, high, first, last, to);
  }

  int32_t leaves_ = 1;
  std::vector<int64_t> top_;    // maximum over the node's range
  std::vector<int64_t> whole_;  // the whole range is at least this high
};

Solution place_on_top(const Problem& problem, std::span<const int32_t> order, int64_t give_up_over) {
  Solution solution{std::vector<int64_t>(problem.blocks.size()), 0};
  Skyline skyline(problem.sections());
  for (const int32_t i : order) {
    const Block& block = problem.blocks[i];
    const int64_t offset = skyline.max(block.first, block.last);
    solution.offsets[i] = offset;
    solution.height = std::max(solution.height, offset + block.size);
    if (solution.height > give_up_over) break;
    skyline.raise(block.first, block.last, offset + block.size);
  }
  return solution;
}

int64_t find_gap(PlacedBlocks& placed, int32_t block, int64_t size, int64_t expected_conflicts,
                 bool best_fit) {
  int64_t top = 0, chosen = -1, chosen_gap = std::numeric_limits<int64_t>::max();
  placed.visit_conflicts(block, expected_conflicts, [&](int64_t offset, int64_t end) {
    const int64_t gap = offset - top;
    if (gap >= size && gap < chosen_gap) {
      chosen = top;
      chosen_gap = gap;
      if (!best_fit || gap == size) return false;
    }
    top = std::max(top, end);
    return true;
  });
  return chosen >= 0 ? chosen : top;
}

std::vector<int32_t> order_by(const Problem& problem, auto key) {
  std::vector<double> keys;
  keys.reserve(problem.blocks.size());
  for (size_t i = 0; i < problem.blocks.size(); ++i) keys.push_back(key(i));
  std::vector<int32_t> order(problem.blocks.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, [&](int32_t a, int32_t b) {
    if (keys[a] != keys[b]) return keys[a] > keys[b];
    return problem.blocks[a].size > problem.blocks[b].size;
  });
  return order;
}

struct Orders {
  const Problem& problem;
  std::vector<int64_t> conflicts = count_conflicts(problem);

  double size(size_t i) const { return static_cast<double>(problem.blocks[i].size); }
  double lifetime(size_t i) const { return problem.blocks[i].last - problem.blocks[i].first; }

  static constexpr int kCount = 8;
  std::vector<int32_t> make(int which) const {
    switch (which) {
      case 0:
        return order_by(problem, [&](size_t i) { return size(i); });
      case 1:
        return order_by(problem, [&](size_t i) { return lifetime(i); });
      case 2:
        return order_by(problem, [&](size_t i) { return size(i) * lifetime(i); });
      case 3:
        return order_by(problem, [&](size_t i) { return static_cast<double>(conflicts[i]); });
      case 4:
        return order_by(problem, [&](size_t i) { return size(i) * static_cast<double>(conflicts[i] + 1); });
      case 5:
        return order_by(problem, [&](size_t i) { return size(i) * std::sqrt(lifetime(i)); });
      case 6:
        return order_by(problem, [&](size_t i) { return -problem.blocks[i].first; });
      default:
        return order_by(problem, [&](size_t i) { return problem.blocks[i].last; });
    }
  }
};

}  // namespace

Solution place_in_order(const Problem& problem, std::span<const int32_t> order, Fit fit,
                        int64_t give_up_over) {
  if (fit == Fit::kOnTop) return place_on_top(problem, order, give_up_over);
  const std::vector<int64_t> conflicts = count_conflicts(problem);
  Solution solution{std::vector<int64_t>(problem.blocks.size()), 0};
  PlacedBlocks placed(problem);
  int64_t count = 0;
  for (const int32_t i : order) {
    const auto expected = conflicts[i] * count / static_cast<int64_t>(problem.blocks.size());
    const int64_t size = problem.blocks[i].size;
    const int64_t offset = find_gap(placed, i, size, expected, fit == Fit::kBest);
    solution.offsets[i] = offset;
    solution.height = std::max(solution.height, offset + size);
    if (solution.height > give_up_over) break;
    placed.insert(i, offset);
    ++count;
  }
  return solution;
}

Solution solve_greedily(const Problem& problem, int64_t budget) {
  Solution best{std::vector<int64_t>(problem.blocks.size()), std::numeric_limits<int64_t>::max()};
  const Orders orders{problem};
  const auto blocks = static_cast<int64_t>(problem.blocks.size());
  const int64_t pairs = std::accumulate(orders.conflicts.begin(), orders.conflicts.end(), int64_t{0}) / 2;
  const auto attempt = [&](int which, Fit fit) {
    Solution solution = place_in_order(problem, orders.make(which), fit, best.height - 1);
    if (solution.height < best.height) best = std::move(solution);
    return best.height == problem.bound;
  };
  for (int which = 0; which < Orders::kCount; ++which) {
    budget -= blocks * 200;
    if (attempt(which, Fit::kOnTop)) return best;
    if (budget < 0) return best;
  }
  for (const Fit fit : {Fit::kFirst, Fit::kBest})
    for (int which = 0; which < Orders::kCount; ++which) {
      budget -= PlacedBlocks::pass_cost(blocks, pairs);
      if (budget < 0) return best;
      if (attempt(which, fit)) return best;
    }
  return best;
}

}  // namespace genesis::passes
