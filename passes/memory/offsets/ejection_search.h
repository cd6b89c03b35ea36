// Packs blocks under a ceiling by insertion with ejection: a block without a place is put where the overlapping blocks weigh
// least; these lose their places, and a block that had to eject others gains weight. After the guided ejection search of Nagata
// and Braysy for vehicle routing. Strong if a few percent of slack are left.
#pragma once

#include <cstdint>
#include <vector>

#include "passes/memory/offsets/offset_problem.h"
#include "passes/memory/offsets/search_tools.h"

namespace genesis::passes {

class EjectionSearch {
 public:
  EjectionSearch(const Problem& problem, const ConflictGraph& conflicts, uint64_t seed);

  // Starts from the offsets of `start`; blocks that end above the ceiling lose their places.
  void aim(const Solution& start, int64_t ceiling, WorkMeter& meter);
  int64_t ceiling() const { return ceiling_; }

  // Continues until every block has a place under the ceiling (true) or the work is used up (false).
  bool run(WorkMeter& meter);
  const std::vector<int64_t>& offsets() const { return offsets_; }

 private:
  // A block in the order of settling. The order is kept between calls, because the next call finds it nearly sorted.
  struct Ranked {
    int64_t depth;
    int32_t block;
  };
  struct Edge {
    int64_t at;
    int64_t weight;
  };

  bool insert_one(WorkMeter& meter);
  int64_t cheapest_offset(int32_t block, int64_t& cost);
  void collect_edges(int32_t block);
  void eject_in_the_way_of(int32_t block);
  void measure_depths(bool downwards);
  void settle(bool downwards);
  int64_t end(int32_t block) const { return offsets_[block] + problem_.blocks[block].size; }

  const Problem& problem_;
  const ConflictGraph& conflicts_;
  SearchRandom random_;
  int64_t ceiling_ = 0, steps_ = 0, steps_to_settle_ = 1;
  std::vector<int64_t> base_, times_pushed_;  // the weight of a block is the product of both
  std::vector<int64_t> offsets_;
  std::vector<char> placed_;
  std::vector<int32_t> waiting_;  // blocks without a place
  // Scratch memory of one insertion: the offsets from which on a block would be in the way, and those from which on not any
  // more.
  std::vector<Edge> enters_, leaves_;
  std::vector<Ranked> falling_, rising_;
  std::vector<int64_t> skyline_;
};

}  // namespace genesis::passes
