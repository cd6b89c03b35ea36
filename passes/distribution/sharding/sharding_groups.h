// Groups of dimensions that are sharded together or not at all, with the reason why a group stays whole. Dimensions are numbered from 0
// in the order of add(); a group is named by the dimension that stands for it until it is joined with another.
#pragma once

#include <string>
#include <vector>

#include "passes/distribution/sharding/disjoint_sets.h"

namespace genesis::passes {

class ShardingGroups {
 public:
  void add() {
    sets_.add();
    refusals_.emplace_back();
  }
  size_t of(size_t dimension) { return sets_.find(dimension); }
  void join(size_t a, size_t b) {
    if (of(a) == of(b)) return;
    const Refusal one = refusals_[of(a)], other = refusals_[of(b)];
    sets_.join(a, b);
    refusals_[of(a)] = {other.why.empty() ? one.why : other.why, one.by_codes || other.by_codes};
  }

  // Keeps the group of a dimension whole; the first reason stays.
  void refuse(size_t dimension, const std::string& why) {
    std::string& reason = refusals_[of(dimension)].why;
    if (reason.empty()) reason = why;
  }
  // Does the same because ranks would cut blocks of 8-bit moments.
  void refuse_for_codes(size_t dimension) { refusals_[of(dimension)].by_codes = true; }

  bool is_refused(size_t dimension) {
    return refused_for_codes_alone(dimension) || !reason(dimension).empty();
  }
  bool refused_for_codes_alone(size_t dimension) {
    return refusals_[of(dimension)].by_codes && reason(dimension).empty();
  }
  // Returns the reason that refuse() was given; empty if there was none.
  const std::string& reason(size_t dimension) { return refusals_[of(dimension)].why; }

 private:
  struct Refusal {
    std::string why;
    bool by_codes = false;
  };
  DisjointSets sets_;
  std::vector<Refusal> refusals_;  // for each group, at the dimension that stands for it
};

}  // namespace genesis::passes
