// Describes how a node can be sharded. Some dimensions of its operands and results belong together, such as the rows of a
// weight and the last dimension of the layer's result: a rank with shard r of each operand computes shard r of the results.
// Such a set of dimensions is a factor (Shardy's term; the letters of einsum are factors). Dimensions in no factor must not be
// sharded.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace genesis::passes {

// A dimension of an operand or a result.
struct FactorMember {
  bool is_result = false;
  size_t index = 0;  // index among the operands or results
  int dim = 0;
  // Members with the same numbering count the same things in the same order, even if their sizes differ: rows of a weight, and
  // heads times head size. Members with different numberings are split over the same ranks, each by its own size: heads of
  // queries and heads of keys.
  int numbering = 0;
  // Start indices of all blocks but the first, if the dimension is a concatenation of blocks, such as q, k and v side by side.
  // Every rank has a shard of each block, so its shard is a concatenation of the same kind.
  std::vector<int64_t> cuts = {};
  std::vector<int64_t> taken = {};  // begin and end of the one block that the node reads, if it is not all
};

struct Factor {
  std::vector<FactorMember> members;
  std::vector<size_t> sums = {};  // results that are sums over the factor: the ranks' results must be summed
  std::vector<size_t> once =
      {};  // operands that are added to such a result, which must happen once: the last ones
};

// Returns whether the factor contains this dimension of an operand or a result.
inline bool has_member(const Factor& factor, bool is_result, size_t index, int dim) {
  return std::any_of(factor.members.begin(), factor.members.end(), [&](const FactorMember& member) {
    return member.is_result == is_result && member.index == index && member.dim == dim;
  });
}

// The shard of a factor that the rank at `place` of `ranks` has.
struct FactorShard {
  int64_t ranks = 1, place = 0;
};

}  // namespace genesis::passes
