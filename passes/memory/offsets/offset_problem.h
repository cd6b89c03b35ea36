// The offset problem in the form that the placing algorithms work on. Time is reduced to *sections*: the moments at which the
// set of live buffers is not contained in that of another moment. Two blocks conflict exactly if their section ranges
// intersect, so this loses nothing.
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
  int64_t bound = 0;          // maximum of load: no solution is lower

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

// A subset of a problem's blocks that shares no section with the rest.
struct Component {
  Problem problem;
  std::vector<int32_t> members;  // block of the component -> block of the whole problem
};

std::vector<Component> split_components(const Problem& problem);

// Returns the number of other blocks that each block shares a section with.
std::vector<int64_t> count_conflicts(const Problem& problem);

int64_t height_of(const Problem& problem, std::span<const int64_t> offsets);

}  // namespace genesis::passes
