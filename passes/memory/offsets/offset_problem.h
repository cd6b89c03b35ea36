// The offset problem in the form the placing algorithms work on. Used by offset_planner, offset_greedy,
// offset_search. Time is cut to *sections*: the moments at which the set of live buffers is not contained in
// another moment's set. Two blocks conflict exactly when their section ranges intersect, so nothing is lost.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace genesis::passes {

struct Block {
  int32_t first;  // occupies sections [first, last)
  int32_t last;
  int64_t size;  // > 0, in units of the alignment
};

struct Problem {
  std::vector<Block> blocks;
  std::vector<int64_t> load;  // per section: sum of the sizes of its blocks
  int64_t bound = 0;          // max of load: no solution is lower

  int32_t sections() const { return static_cast<int32_t>(load.size()); }
};

struct Solution {
  std::vector<int64_t> offsets;  // one for each block
  int64_t height = 0;
};

struct Lifetime {
  int64_t lower, upper;  // lower < upper
  int64_t size;          // > 0
};

Problem make_problem(std::span<const Lifetime> lifetimes);

// A part of a problem that shares no section with the rest.
struct Component {
  Problem problem;
  std::vector<int32_t> members;  // block of the part -> block of the whole
};

std::vector<Component> split_components(const Problem& problem);

// How many other blocks each block shares a section with.
std::vector<int64_t> count_conflicts(const Problem& problem);

int64_t height_of(const Problem& problem, std::span<const int64_t> offsets);

}  // namespace genesis::passes
