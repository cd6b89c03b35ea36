// The blocks that are already placed, for visiting from the lowest to the highest. Finds those that conflict with a new block
// in two ways: by a scan of all placed blocks in offset order (fast if most of them conflict), or by a tree over start sections
// (fast if few do). Both visit the same blocks in the same order.
#pragma once

#include <cstdint>
#include <vector>

#include "passes/memory/offsets/offset_problem.h"

namespace genesis::passes {

class PlacedBlocks {
 public:
  explicit PlacedBlocks(const Problem& problem);

  void insert(int32_t block, int64_t offset);

  // Calls visit(offset, end) for each placed block that shares a section with `block`, by increasing offset, until it returns
  // false. `expected` is an estimate of their number and only decides how they are found.
  template <class Visit>
  void visit_conflicts(int32_t block, int64_t expected, Visit&& visit) {
    if (expected * kTreeCost < static_cast<int64_t>(placed_)) {
      collect_by_tree(block);
      for (const Entry& entry : found_)
        if (!visit(entry.offset, entry.end)) return;
      return;
    }
    const Block& b = problem_.blocks[block];
    for (const Chunk& chunk : chunks_) {
      if (chunk.first >= b.last || chunk.last <= b.first) continue;
      for (const Entry& entry : chunk.entries)
        if (entry.first < b.last && entry.last > b.first && !visit(entry.offset, entry.end)) return;
    }
  }

  // Returns the units of work (about nanoseconds) of one pass over all blocks, for a number of conflicting pairs.
  static int64_t pass_cost(int64_t blocks, int64_t conflict_pairs);

 private:
  static constexpr int64_t kTreeCost =
      24;  // a conflict found by the tree costs about this many scanned entries
  static constexpr size_t kChunk = 256;

  struct Entry {
    int64_t offset, end;
    int32_t first, last;
  };
  struct Chunk {
    int32_t first, last;  // range that covers the entries' sections
    std::vector<Entry> entries;
  };

  void insert_into_chunks(const Entry& entry);
  void collect_by_tree(int32_t block);

  const Problem& problem_;
  size_t placed_ = 0;
  std::vector<Chunk> chunks_;
  std::vector<int32_t> rank_;      // block -> position by start section
  std::vector<int32_t> block_at_;  // position by start section -> block
  std::vector<int32_t> starts_;    // start section by position
  std::vector<int32_t> tree_;      // maximum `last` of the placed blocks in a range of positions; 0: none
  int32_t leaves_ = 1;
  std::vector<int64_t> offset_of_;
  std::vector<Entry> found_;
  std::vector<int32_t> stack_;
};

}  // namespace genesis::passes
