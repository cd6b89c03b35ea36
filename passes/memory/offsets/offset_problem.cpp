// Builds problems from lifetimes, and splits them at times that no block crosses.
#include "passes/memory/offsets/offset_problem.h"

#include <algorithm>
#include <numeric>

namespace genesis::passes {
namespace {

void compute_load(Problem& problem, int32_t sections) {
  std::vector<int64_t> change(static_cast<size_t>(sections) + 1, 0);
  for (const Block& block : problem.blocks) {
    change[block.first] += block.size;
    change[block.last] -= block.size;
  }
  problem.load.resize(sections);
  std::partial_sum(change.begin(), change.end() - 1, problem.load.begin());
  problem.bound = problem.load.empty() ? 0 : *std::ranges::max_element(problem.load);
}

std::vector<int32_t> sorted_indices(size_t n, auto key) {
  std::vector<int32_t> order(n);
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, {}, key);
  return order;
}

}  // namespace

// A section closes at an end that follows a start: only there the set of live blocks is maximal.
Problem make_problem(std::span<const Lifetime> lifetimes) {
  const size_t n = lifetimes.size();
  const auto starts = sorted_indices(n, [&](int32_t i) { return lifetimes[i].lower; });
  const auto ends = sorted_indices(n, [&](int32_t i) { return lifetimes[i].upper; });
  Problem problem;
  problem.blocks.resize(n);
  int32_t section = 0;
  bool grown = false;  // true if a block started since the last section was closed
  size_t next_start = 0;
  for (const int32_t ending : ends) {
    for (; next_start < n && lifetimes[starts[next_start]].lower < lifetimes[ending].upper; ++next_start) {
      const int32_t starting = starts[next_start];
      problem.blocks[starting] = {section, section, lifetimes[starting].size};
      grown = true;
    }
    if (grown) ++section;
    grown = false;
    problem.blocks[ending].last = section;
  }
  compute_load(problem, section);
  return problem;
}

std::vector<Component> split_components(const Problem& problem) {
  const int32_t sections = problem.sections();
  std::vector<int32_t> crossing(static_cast<size_t>(sections) + 1,
                                0);  // blocks alive on both sides of a border
  for (const Block& block : problem.blocks) {
    ++crossing[block.first + 1];
    --crossing[block.last];
  }
  std::partial_sum(crossing.begin(), crossing.end(), crossing.begin());
  std::vector<int32_t> component_of(sections), begin_of;
  for (int32_t section = 0; section < sections; ++section) {
    if (crossing[section] == 0) begin_of.push_back(section);
    component_of[section] = static_cast<int32_t>(begin_of.size()) - 1;
  }
  begin_of.push_back(sections);
  std::vector<Component> components(begin_of.size() - 1);
  for (size_t i = 0; i < problem.blocks.size(); ++i) {
    const Block& block = problem.blocks[i];
    const int32_t c = component_of[block.first];
    components[c].members.push_back(static_cast<int32_t>(i));
    components[c].problem.blocks.push_back({block.first - begin_of[c], block.last - begin_of[c], block.size});
  }
  for (size_t c = 0; c < components.size(); ++c)
    compute_load(components[c].problem, begin_of[c + 1] - begin_of[c]);
  return components;
}

std::vector<int64_t> count_conflicts(const Problem& problem) {
  std::vector<int64_t> started(static_cast<size_t>(problem.sections()) + 1, 0), ended(started);
  for (const Block& block : problem.blocks) {
    ++started[block.first];
    ++ended[block.last];
  }
  std::partial_sum(started.begin(), started.end(), started.begin());
  std::partial_sum(ended.begin(), ended.end(), ended.begin());
  std::vector<int64_t> conflicts;
  conflicts.reserve(problem.blocks.size());
  for (const Block& block : problem.blocks)
    conflicts.push_back(started[block.last - 1] - ended[block.first] - 1);
  return conflicts;
}

int64_t height_of(const Problem& problem, std::span<const int64_t> offsets) {
  int64_t height = 0;
  for (size_t i = 0; i < offsets.size(); ++i) height = std::max(height, offsets[i] + problem.blocks[i].size);
  return height;
}

}  // namespace genesis::passes
