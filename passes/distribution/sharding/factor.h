// What can be cut of a node: its operands and results have dimensions that go together, such as the rows of a weight and
// the last dimension of what it makes, so a rank that has part r of each computes part r of the results. A factor is such a
// set (the word is Shardy's, and einsum's letters are factors). Dimensions in no factor must be whole.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace genesis::passes {

// A dimension of an operand or a result.
struct FactorMember {
  bool is_result = false;
  size_t index = 0;  // of the operand or result
  int dim = 0;
  // Members of one numbering count the same things in the same order, even where their sizes differ: rows of a weight, and heads
  // times the size of a head. Members of another numbering are cut by as many ranks, each by its own size: the queries' heads and
  // the keys' heads.
  int numbering = 0;
  // Where the dimension is composed of pieces, such as q, k and v side by side: at which index each piece but the first begins.
  // Every rank has a part of each piece, so its part is composed in the same way.
  std::vector<int64_t> cuts = {};
  std::vector<int64_t> taken = {};  // where the node reads one piece of the operand alone: its begin and its end
};

struct Factor {
  std::vector<FactorMember> members;
  std::vector<size_t> sums = {};  // results that are sums over the factor: those of the ranks are to be added up
  std::vector<size_t> once =
      {};  // operands that are added to such a result, which is to happen once: the last ones
};

// Whether the factor has this dimension of an operand or a result.
inline bool has_member(const Factor& factor, bool is_result, size_t index, int dim) {
  return std::any_of(factor.members.begin(), factor.members.end(), [&](const FactorMember& member) {
    return member.is_result == is_result && member.index == index && member.dim == dim;
  });
}

// Which part of a factor: that of the rank at `place` of `ranks`.
struct FactorPart {
  int64_t ranks = 1, place = 0;
};

}  // namespace genesis::passes
