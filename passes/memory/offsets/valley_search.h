// Packs blocks under a ceiling by depth-first search. The skyline is the top of the placed blocks; a valley is a range of
// sections of equal height with higher walls on both sides. The next content of a section in a valley is either a block that
// fits between the walls, or nothing up to the next level. The search picks a section with few such choices and tries each; a
// branch ends at a section whose remaining blocks no longer fit under the ceiling. The search is complete, but is stopped and
// restarted with new random choices. Strong if (nearly) perfect packings exist.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "passes/memory/offsets/offset_problem.h"
#include "passes/memory/offsets/search_tools.h"

namespace genesis::passes {

class ValleySearch {
 public:
  ValleySearch(const Problem& problem, uint64_t seed);

  // Makes one descent of at most `node_limit` nodes. Returns true if every block is placed under the ceiling.
  bool solve(int64_t ceiling, int64_t node_limit, WorkMeter& meter);
  const std::vector<int64_t>& offsets() const { return offsets_; }

 private:
  struct Range {
    int32_t first, last;
  };
  struct Option {
    double value;
    int32_t block;
  };
  // A change to undo: a block was placed on sections that were all at `floor`, or (block < 0) a section was raised from
  // `floor`.
  struct Change {
    int32_t block, section;
    int64_t floor;
  };
  struct Frame {  // buffers of one level of the recursion
    std::vector<int32_t> open;
    std::vector<Range> parts;
    std::vector<Option> options;
  };

  void reset();
  bool solve_parts(Range range, std::span<const int32_t> open, size_t depth);
  bool branch(Range range, size_t depth);
  void split(Range range, std::vector<Range>& parts) const;
  void find_valleys(Range range);
  void count_fitting(Range range, std::span<const int32_t> open);
  int32_t pick_section(Range range);
  void list_options(int32_t section, Range range, std::vector<Option>& options);
  double value_of(int32_t block, int32_t section, Range range);
  int64_t next_level(int32_t section, std::span<const int32_t> open) const;
  void place(int32_t block, int64_t floor);
  void raise(int32_t section, int64_t floor);
  void undo(size_t to);
  bool out_of_work() const { return nodes_left_ <= 0; }
  int64_t slack(int32_t section) const { return ceiling_ - floor_[section] - remaining_[section]; }
  bool fits_valley(const Block& block, int32_t section) const {
    return block.first >= valley_[section].first && block.last <= valley_[section].last;
  }

  const Problem& problem_;
  SearchRandom random_;
  WorkMeter* meter_ = nullptr;
  int64_t ceiling_ = 0, nodes_left_ = 0, reset_cost_ = 0;
  std::vector<std::vector<int32_t>> covering_;  // section -> its blocks
  std::vector<int64_t> floor_,
      remaining_;                  // per section: top of the placed blocks, sum of the sizes of the others
  std::vector<int32_t> crossing_;  // open blocks alive on both sides of the border before a section
  std::vector<double> trouble_;    // per section: grows with the number of branches it ended
  std::vector<double> value_;      // per block: larger ones are tried first
  std::vector<char> placed_;
  std::vector<int64_t> offsets_;
  Range blame_ = {0, 0};  // the sections whose state made the last branch fail
  std::vector<Change> changes_;
  std::deque<Frame> frames_;
  std::vector<Range> valley_;  // per section: the valley it lies in, empty if none
  std::vector<int32_t>
      fitting_;  // per section: open blocks that cover it and fit between the walls of its valley
};

}  // namespace genesis::passes
