// Checks and normalizes the input, solves independent ranges of time separately, and reports in bytes.
#include "passes/memory/offsets/offset_planner.h"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <utility>

#include "passes/memory/offsets/offset_greedy.h"
#include "passes/memory/offsets/offset_problem.h"
#include "passes/memory/offsets/offset_search.h"
#include "schema/core/error.h"

namespace genesis::passes {
namespace {

using Clock = std::chrono::steady_clock;

// Work limit of the greedy orders, in about nanoseconds; from about 20,000 buffers on, not all orders fit.
constexpr int64_t kGreedyBudget = 600'000'000;
// Larger problems are only solved by the greedy orders, which then get part of the search budget: a search would complete too
// few rounds.
constexpr size_t kMaxSearchBlocks = 20'000;
constexpr int64_t kMaxSearchConflicts = 20'000'000;

bool needs_bytes(const PlanBuffer& buffer) { return buffer.size > 0 && buffer.lower < buffer.upper; }

bool is_searchable(const Problem& problem) {
  if (problem.blocks.size() > kMaxSearchBlocks) return false;
  const std::vector<int64_t> conflicts = count_conflicts(problem);
  return std::accumulate(conflicts.begin(), conflicts.end(), int64_t{0}) <= kMaxSearchConflicts;
}

void check(std::span<const PlanBuffer> buffers, int64_t alignment) {
  if (alignment < 1) fail("plan_offsets: alignment is {}, expected at least 1", alignment);
  int64_t total = alignment;
  for (size_t i = 0; i < buffers.size(); ++i) {
    const PlanBuffer& b = buffers[i];
    if (b.size < 0) fail("plan_offsets: buffer {} has size {}, expected 0 or more", i, b.size);
    if (b.lower > b.upper)
      fail("plan_offsets: buffer {} lives in [{}, {}), expected lower <= upper", i, b.lower, b.upper);
    int64_t rounded = 0;
    if (__builtin_add_overflow(b.size, alignment - 1, &rounded) ||
        __builtin_add_overflow(total, rounded, &total))
      fail("plan_offsets: the sizes of {} buffers add up to more than 2^63 - 1 bytes; buffer {} has size {}",
           buffers.size(), i, b.size);
  }
}

struct Normalized {
  std::vector<size_t> members;      // the buffers that need bytes
  std::vector<Lifetime> lifetimes;  // their lifetimes; sizes in units of the alignment, rounded up
};

Normalized normalize(std::span<const PlanBuffer> buffers, int64_t alignment) {
  Normalized result;
  for (size_t i = 0; i < buffers.size(); ++i) {
    if (!needs_bytes(buffers[i])) continue;
    result.members.push_back(i);
    result.lifetimes.push_back({buffers[i].lower, buffers[i].upper, (buffers[i].size - 1) / alignment + 1});
  }
  return result;
}

// At any moment all live buffers but the topmost one take their size rounded up to the alignment.
int64_t lower_bound_of(std::span<const PlanBuffer> buffers, const Normalized& normalized,
                       const Problem& problem, int64_t alignment) {
  int64_t bound = 0;
  for (const PlanBuffer& buffer : buffers) bound = std::max(bound, buffer.size);
  std::vector<int64_t> most_padding(problem.load.size(), 0);
  if (alignment > 1) {
    for (size_t i = 0; i < problem.blocks.size(); ++i) {
      const Block& block = problem.blocks[i];
      const int64_t padding = block.size * alignment - buffers[normalized.members[i]].size;
      for (int32_t s = block.first; s < block.last; ++s) most_padding[s] = std::max(most_padding[s], padding);
    }
  }
  for (size_t s = 0; s < problem.load.size(); ++s)
    bound = std::max(bound, problem.load[s] * alignment - most_padding[s]);
  return bound;
}

// Searches in the components that exceed the target, the highest first: the others need not get lower than the height it
// reaches.
void search(std::span<const Component> components, int64_t target, int64_t budget, Clock::time_point deadline,
            std::span<Solution> solutions) {
  std::vector<size_t> order;
  for (size_t c = 0; c < components.size(); ++c)
    if (solutions[c].height > target && is_searchable(components[c].problem))
      order.push_back(c);
    else
      target = std::max(target, solutions[c].height);
  std::ranges::stable_sort(order,
                           [&](size_t a, size_t b) { return solutions[a].height > solutions[b].height; });
  for (size_t i = 0; i < order.size(); ++i) {
    Solution& solution = solutions[order[i]];
    const auto share = budget / static_cast<int64_t>(order.size() - i);
    budget -= improve_by_search(components[order[i]].problem, target, {share, deadline}, solution);
    target = std::max(target, solution.height);
  }
}

// Solves components separately; the one that is hardest to lower decides how low the others must get.
std::vector<int64_t> solve(const Problem& problem, const OffsetOptions& options) {
  const auto deadline = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                           std::chrono::duration<double>(options.max_seconds));
  std::vector<int64_t> offsets(problem.blocks.size(), 0);
  std::vector<Component> components = split_components(problem);
  std::vector<Solution> solutions;
  solutions.reserve(components.size());
  for (const Component& c : components) {
    const double part =
        static_cast<double>(c.problem.blocks.size()) / static_cast<double>(problem.blocks.size());
    const int64_t unsearched = is_searchable(c.problem) ? 0 : options.search_budget / 2;
    solutions.push_back(solve_greedily(c.problem, static_cast<int64_t>(part * kGreedyBudget) + unsearched));
  }
  search(components, problem.bound, options.search_budget, deadline, solutions);
  for (size_t c = 0; c < components.size(); ++c)
    for (size_t i = 0; i < components[c].members.size(); ++i)
      offsets[components[c].members[i]] = solutions[c].offsets[i];
  return offsets;
}

// Small blocks with long lives connect ranges of time that could otherwise be solved separately.
constexpr int64_t kSmallShare = 4096;  // limit of their total: 1 / kSmallShare of the lower bound

std::vector<bool> small_and_lasting(const Problem& problem, const std::vector<Lifetime>& lifetimes) {
  std::vector<bool> chosen(lifetimes.size(), false);
  if (lifetimes.empty()) return chosen;
  int64_t begin = lifetimes[0].lower, end = begin, left = problem.bound / kSmallShare;
  for (const Lifetime& one : lifetimes) begin = std::min(begin, one.lower), end = std::max(end, one.upper);
  for (size_t i = 0; i < lifetimes.size(); ++i) {
    chosen[i] = lifetimes[i].size <= left && lifetimes[i].upper - lifetimes[i].lower > (end - begin) / 2;
    if (chosen[i]) left -= lifetimes[i].size;
  }
  return chosen;
}

// Like solve(), but puts these blocks at the bottom, one above the other, and all others above them. Empty if there are none.
std::vector<int64_t> solve_above_lasting(const Problem& problem, const std::vector<Lifetime>& lifetimes,
                                         const OffsetOptions& options) {
  const std::vector<bool> is_below = small_and_lasting(problem, lifetimes);
  std::vector<int64_t> offsets(lifetimes.size(), 0);
  std::vector<Lifetime> others;
  int64_t floor = 0;
  for (size_t i = 0; i < lifetimes.size(); ++i)
    if (is_below[i])
      offsets[i] = std::exchange(floor, floor + lifetimes[i].size);
    else
      others.push_back(lifetimes[i]);
  if (floor == 0) return {};
  const std::vector<int64_t> above = solve(make_problem(others), options);
  for (size_t i = 0, k = 0; i < lifetimes.size(); ++i)
    if (!is_below[i]) offsets[i] = floor + above[k++];
  return offsets;
}

int64_t planned_height(const std::vector<int64_t>& offsets, const std::vector<Lifetime>& lifetimes) {
  int64_t height = 0;
  for (size_t i = 0; i < offsets.size(); ++i) height = std::max(height, offsets[i] + lifetimes[i].size);
  return height;
}

std::vector<int64_t> lowest(const Problem& problem, const std::vector<Lifetime>& lifetimes,
                            const OffsetOptions& options) {
  std::vector<int64_t> offsets = solve(problem, options);
  if (planned_height(offsets, lifetimes) == problem.bound) return offsets;
  std::vector<int64_t> apart = solve_above_lasting(problem, lifetimes, options);
  return !apart.empty() && planned_height(apart, lifetimes) < planned_height(offsets, lifetimes) ? apart
                                                                                                 : offsets;
}

}  // namespace

double OffsetPlan::ratio() const {
  return lower_bound > 0 ? static_cast<double>(height) / static_cast<double>(lower_bound) : 1.0;
}

OffsetPlan plan_offsets(std::span<const PlanBuffer> buffers, const OffsetOptions& options) {
  check(buffers, options.alignment);
  const Normalized normalized = normalize(buffers, options.alignment);
  const Problem problem = make_problem(normalized.lifetimes);
  const std::vector<int64_t> offsets = lowest(problem, normalized.lifetimes, options);
  OffsetPlan plan;
  plan.offsets.assign(buffers.size(), 0);
  for (size_t i = 0; i < offsets.size(); ++i)
    plan.offsets[normalized.members[i]] = offsets[i] * options.alignment;
  for (size_t i = 0; i < buffers.size(); ++i)
    plan.height = std::max(plan.height, plan.offsets[i] + buffers[i].size);
  plan.lower_bound = lower_bound_of(buffers, normalized, problem, options.alignment);
  return plan;
}

}  // namespace genesis::passes
