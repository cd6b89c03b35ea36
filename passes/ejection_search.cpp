// See the header.
#include "passes/ejection_search.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace genesis::passes {
namespace {

// Large blocks are harder to place again, so they weigh more; measured: less than area, more than its root.
constexpr double kAreaExponent = 0.7;
constexpr double kHeaviest = 1e6;
constexpr int64_t kStepsBetweenSettling = 5;

double area(const Block& block) {
  return static_cast<double>(block.size) * static_cast<double>(block.last - block.first);
}

}  // namespace

EjectionSearch::EjectionSearch(const Problem& problem, const ConflictGraph& conflicts, uint64_t seed)
    : problem_(problem), conflicts_(conflicts), random_(seed) {
  const size_t n = problem.blocks.size();
  double largest = 1;
  for (const Block& block : problem.blocks) largest = std::max(largest, area(block));
  for (const Block& block : problem.blocks)
    base_.push_back(1 + static_cast<int64_t>(kHeaviest * std::pow(area(block) / largest, kAreaExponent)));
  times_pushed_.assign(n, 1);
  placed_.assign(n, 0);
}

void EjectionSearch::aim(const Solution& start, int64_t ceiling) {
  offsets_ = start.offsets;
  ceiling_ = ceiling;
  waiting_.clear();
  for (size_t i = 0; i < offsets_.size(); ++i) {
    placed_[i] = end(static_cast<int32_t>(i)) <= ceiling;
    if (!placed_[i]) waiting_.push_back(static_cast<int32_t>(i));
  }
}

bool EjectionSearch::run(WorkMeter& meter) {
  while (!waiting_.empty())
    if (!insert_one(meter)) return false;
  settle(true);
  return true;
}

// The largest waiting block or a random one, about equally often.
bool EjectionSearch::insert_one(WorkMeter& meter) {
  auto chosen = waiting_.begin() + static_cast<int64_t>(random_.below(waiting_.size()));
  if (random_.next() & 1)
    chosen = std::max_element(waiting_.begin(), waiting_.end(),
                              [&](int32_t a, int32_t b) { return base_[a] < base_[b]; });
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
  int64_t work = 100 + degree * 30;
  if (++steps_ % kStepsBetweenSettling == 0) {
    settle(steps_ / kStepsBetweenSettling % 2 == 0);
    work += static_cast<int64_t>(problem_.blocks.size()) * 40;
  }
  return meter.spend(work);
}

// At offset x a placed block [o, e) is in the way of a block of size s when o - s < x < e.
void EjectionSearch::collect_edges(int32_t block) {
  const int64_t size = problem_.blocks[block].size, highest = ceiling_ - size;
  enters_.clear();
  leaves_.clear();
  candidates_.assign({0, highest});
  for (const int32_t other : conflicts_.of(block)) {
    if (!placed_[other]) continue;
    const int64_t weight = base_[other] * times_pushed_[other];
    const int64_t below = offsets_[other] - size, above = end(other);
    enters_.push_back({below, weight});
    leaves_.push_back({above, weight});
    if (below > 0) candidates_.push_back(below);
    if (above < highest) candidates_.push_back(above);
  }
  const auto by_place = [](const Edge& a, const Edge& b) { return a.at < b.at; };
  std::sort(enters_.begin(), enters_.end(), by_place);
  std::sort(leaves_.begin(), leaves_.end(), by_place);
  std::sort(candidates_.begin(), candidates_.end());
}

// Sweeps over the candidates, those that touch another block or an end of the arena; ties are broken at
// random.
int64_t EjectionSearch::cheapest_offset(int32_t block, int64_t& cost) {
  collect_edges(block);
  size_t entered = 0, left = 0, ties = 0;
  int64_t weight = 0, chosen = 0;
  cost = std::numeric_limits<int64_t>::max();
  for (size_t c = 0; c < candidates_.size(); ++c) {
    const int64_t x = candidates_[c];
    if (c > 0 && x == candidates_[c - 1]) continue;
    while (entered < enters_.size() && enters_[entered].at < x) weight += enters_[entered++].weight;
    while (left < leaves_.size() && leaves_[left].at <= x) weight -= leaves_[left++].weight;
    if (weight > cost) continue;
    if (weight < cost) ties = 0;
    cost = weight;
    if (random_.below(++ties) == 0) chosen = x;
  }
  return chosen;
}

void EjectionSearch::eject_in_the_way_of(int32_t block) {
  for (const int32_t other : conflicts_.of(block)) {
    if (!placed_[other] || offsets_[other] >= end(block) || end(other) <= offsets_[block]) continue;
    placed_[other] = 0;
    waiting_.push_back(other);
  }
}

// Lets every placed block fall to the floor, or rise to the ceiling, as far as the others allow: gaps flow
// together.
void EjectionSearch::settle(bool downwards) {
  order_.clear();
  for (size_t i = 0; i < placed_.size(); ++i)
    if (placed_[i]) order_.push_back(static_cast<int32_t>(i));
  // Seen from the end it moves to, a block starts at `depth` and takes its size.
  const auto depth = [&](int32_t i) { return downwards ? offsets_[i] : ceiling_ - end(i); };
  std::sort(order_.begin(), order_.end(), [&](int32_t a, int32_t b) { return depth(a) < depth(b); });
  skyline_.assign(static_cast<size_t>(problem_.sections()), 0);
  for (const int32_t i : order_) {
    const Block& block = problem_.blocks[i];
    const auto begin = skyline_.begin() + block.first, end = skyline_.begin() + block.last;
    const int64_t rest = *std::max_element(begin, end);
    std::fill(begin, end, rest + block.size);
    offsets_[i] = downwards ? rest : ceiling_ - rest - block.size;
  }
}

}  // namespace genesis::passes
