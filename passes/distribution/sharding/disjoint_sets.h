// Disjoint sets of numbers (union-find): add() makes a set with one new element, join() unites two sets, find() returns the
// representative of a set, which is the same for all its elements until the set is joined with another.
#pragma once

#include <cstddef>
#include <vector>

namespace genesis::passes {

class DisjointSets {
 public:
  size_t add() {
    parents_.push_back(parents_.size());
    return parents_.size() - 1;
  }
  size_t find(size_t element) {
    while (parents_[element] != element) element = parents_[element] = parents_[parents_[element]];
    return element;
  }
  void join(size_t a, size_t b) { parents_[find(a)] = find(b); }

 private:
  std::vector<size_t> parents_;
};

}  // namespace genesis::passes
