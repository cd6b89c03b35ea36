#include "passes/memory/offsets/ejection_search.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace genesis::passes {
namespace {

// Large blocks are harder to place again, so they weigh more. Measured: the best weight is less than the area and more than its
// square root.
constexpr double kAreaExponent = 0.7;
constexpr double kHeaviest = 1e6;
constexpr size_t kBlocksPerStepToSettle = 100, kFewestStepsToSettle = 5;

double area(const Block& block) {
  return static_cast<double>(block.size) * static_cast<double>(block.last - block.first);
}

constexpr int64_t kNowhere = std::numeric_limits<int64_t>::max();

// Uses two chains of comparisons instead of one: this loop takes most of the time of settling.
int64_t highest(const int64_t* tops, int32_t count) {
  int64_t even = tops[0], odd = tops[count - 1];
  for (int32_t i = 0; i + 1 < count; i += 2) {
    even = std::max(even, tops[i]);
    odd = std::max(odd, tops[i + 1]);
  }
  return std::max(even, odd);
}

}  // namespace

EjectionSearch::EjectionSearch(const Problem& problem, const ConflictGraph& conflicts, uint64_t seed)
    : problem_(problem), conflicts_(conflicts), random_(seed) {
  const size_t n = problem.blocks.size();
  double largest = 1;
  for (const Block& block : problem.blocks) largest = std::max(largest, area(block));
  for (const Block& block : problem.blocks)
    base_.push_back(1 + static_cast<int64_t>(kHeaviest * std::pow(area(block) / largest, kAreaExponent)));
  for (size_t i = 0; i < n; ++i) falling_.push_back({0, static_cast<int32_t>(i)});
  rising_ = falling_;
  steps_to_settle_ = static_cast<int64_t>(std::max(kFewestStepsToSettle, n / kBlocksPerStepToSettle));
  times_pushed_.assign(n, 1);
  placed_.assign(n, 0);
}

void EjectionSearch::aim(const Solution& start, int64_t ceiling, WorkMeter& meter) {
  meter.spend(static_cast<int64_t>(start.offsets.size()) * 150);
  offsets_ = start.offsets;
  ceiling_ = ceiling;
  waiting_.clear();
  for (size_t i = 0; i < offsets_.size(); ++i) {
    placed_[i] = end(static_cast<int32_t>(i)) <= ceiling;
    if (!placed_[i]) waiting_.push_back(static_cast<int32_t>(i));
  }
  for (const bool downwards : {true, false}) {
    measure_depths(downwards);
    std::vector<Ranked>& order = downwards ? falling_ : rising_;
    std::ranges::sort(order, [](const Ranked& a, const Ranked& b) {
      return a.depth != b.depth ? a.depth < b.depth : a.block < b.block;
    });
  }
}

bool EjectionSearch::run(WorkMeter& meter) {
  while (!waiting_.empty())
    if (!insert_one(meter)) return false;
  settle(true);
  return true;
}

// Inserts the largest waiting block or a random one, each about half of the time.
bool EjectionSearch::insert_one(WorkMeter& meter) {
  auto chosen = waiting_.begin() + static_cast<int64_t>(random_.below(waiting_.size()));
  if (random_.next() & 1)
    chosen = std::ranges::max_element(waiting_, [&](int32_t a, int32_t b) { return base_[a] < base_[b]; });
  const int32_t block = *chosen;
  waiting_.erase(chosen);
  int64_t cost = 0;
  offsets_[block] = cheapest_offset(block, cost);
  if (cost > 0) {
    ++times_pushed_[block];
    eject_in_the_way_of(block);
  }
  placed_[block] = 1;
  const auto degree = static_cast<int64_t>(conflicts_.of(block).size());
  int64_t work = 60 + degree * 20;
  if (++steps_ % steps_to_settle_ == 0) {
    settle(steps_ / steps_to_settle_ % 2 == 0);
    work += static_cast<int64_t>(problem_.blocks.size()) * 25;
  }
  return meter.spend(work);
}

// At offset x, a placed block [o, e) overlaps a block of size s if o - s < x < e.
void EjectionSearch::collect_edges(int32_t block) {
  const int64_t size = problem_.blocks[block].size;
  enters_.clear();
  leaves_.clear();
  for (const int32_t other : conflicts_.of(block)) {
    if (!placed_[other]) continue;
    const int64_t weight = base_[other] * times_pushed_[other];
    enters_.push_back({offsets_[other] - size, weight});
    leaves_.push_back({end(other), weight});
  }
  const auto by_place = [](const Edge& a, const Edge& b) { return a.at < b.at; };
  std::ranges::sort(enters_, by_place);
  std::ranges::sort(leaves_, by_place);
  enters_.push_back({kNowhere, 0});
  leaves_.push_back({kNowhere, 0});
}

// Sweeps over the offsets at which the block touches another block or an end of the arena; breaks ties at random.
int64_t EjectionSearch::cheapest_offset(int32_t block, int64_t& cost) {
  collect_edges(block);
  const int64_t highest = ceiling_ - problem_.blocks[block].size;
  auto enter = enters_.begin(), leave = leaves_.begin();
  int64_t weight = 0, chosen = 0;
  size_t ties = 0;
  cost = std::numeric_limits<int64_t>::max();
  for (; enter->at < 0; ++enter) weight += enter->weight;
  for (int64_t x = 0;; x = std::min({enter->at, leave->at, highest})) {
    for (; leave->at <= x; ++leave) weight -= leave->weight;
    if (weight <= cost) {
      if (weight < cost) ties = 0;
      cost = weight;
      if (random_.below(++ties) == 0) chosen = x;
    }
    if (x == highest) return chosen;
    for (; enter->at <= x; ++enter) weight += enter->weight;
  }
}

void EjectionSearch::eject_in_the_way_of(int32_t block) {
  for (const int32_t other : conflicts_.of(block)) {
    if (!placed_[other] || offsets_[other] >= end(block) || end(other) <= offsets_[block]) continue;
    placed_[other] = 0;
    waiting_.push_back(other);
  }
}

void EjectionSearch::measure_depths(bool downwards) {
  for (Ranked& r : downwards ? falling_ : rising_)
    r.depth = !placed_[r.block] ? kNowhere : downwards ? offsets_[r.block] : ceiling_ - end(r.block);
}

// Moves every placed block to the bottom, or to the ceiling, as far as the others allow, so that gaps join. `depth` is a
// block's distance from the end it moves to.
void EjectionSearch::settle(bool downwards) {
  std::vector<Ranked>& order = downwards ? falling_ : rising_;
  measure_depths(downwards);
  for (size_t i = 1; i < order.size(); ++i) {
    const Ranked moved = order[i];
    size_t to = i;
    for (; to > 0 && order[to - 1].depth > moved.depth; --to) order[to] = order[to - 1];
    order[to] = moved;
  }
  skyline_.assign(static_cast<size_t>(problem_.sections()), 0);
  for (const Ranked& r : order) {
    if (r.depth == kNowhere) break;
    const Block& block = problem_.blocks[r.block];
    const int64_t rest = highest(skyline_.data() + block.first, block.last - block.first);
    std::fill(skyline_.begin() + block.first, skyline_.begin() + block.last, rest + block.size);
    offsets_[r.block] = downwards ? rest : ceiling_ - rest - block.size;
  }
}

}  // namespace genesis::passes
