// The chunks are a sorted list split into short arrays, so that an insertion moves few entries.
#include "passes/memory/offsets/placed_blocks.h"

#include <algorithm>
#include <numeric>

namespace genesis::passes {

PlacedBlocks::PlacedBlocks(const Problem& problem) : problem_(problem) {
  const size_t n = problem.blocks.size();
  block_at_.resize(n);
  std::iota(block_at_.begin(), block_at_.end(), 0);
  std::ranges::stable_sort(block_at_, {}, [&](int32_t b) { return problem.blocks[b].first; });
  rank_.resize(n);
  starts_.resize(n);
  for (size_t p = 0; p < n; ++p) {
    rank_[block_at_[p]] = static_cast<int32_t>(p);
    starts_[p] = problem.blocks[block_at_[p]].first;
  }
  while (leaves_ < static_cast<int32_t>(n)) leaves_ *= 2;
  tree_.assign(static_cast<size_t>(leaves_) * 2, 0);
  offset_of_.assign(n, 0);
}

void PlacedBlocks::insert(int32_t block, int64_t offset) {
  const Block& b = problem_.blocks[block];
  offset_of_[block] = offset;
  ++placed_;
  for (int32_t node = leaves_ + rank_[block]; node > 0; node /= 2)
    tree_[node] = std::max(tree_[node], b.last);
  insert_into_chunks({offset, offset + b.size, b.first, b.last});
}

void PlacedBlocks::insert_into_chunks(const Entry& entry) {
  const auto by_offset = [](const Entry& a, const Entry& b) { return a.offset < b.offset; };
  if (chunks_.empty()) chunks_.push_back({entry.first, entry.last, {}});
  auto chunk =
      std::upper_bound(chunks_.begin() + 1, chunks_.end(), entry,
                       [&](const Entry& e, const Chunk& c) { return e.offset < c.entries.front().offset; }) -
      1;
  auto& entries = chunk->entries;
  entries.insert(std::ranges::upper_bound(entries, entry, by_offset), entry);
  chunk->first = std::min(chunk->first, entry.first);
  chunk->last = std::max(chunk->last, entry.last);
  if (entries.size() < kChunk) return;
  Chunk upper{chunk->first, chunk->last, {entries.begin() + kChunk / 2, entries.end()}};
  entries.resize(kChunk / 2);
  for (Chunk* half : {&*chunk, &upper}) {
    half->first = half->entries.front().first;
    half->last = 0;
    for (const Entry& e : half->entries) {
      half->first = std::min(half->first, e.first);
      half->last = std::max(half->last, e.last);
    }
  }
  chunks_.insert(chunk + 1, std::move(upper));
}

// Conflicting blocks start before `b.last` and end after `b.first`: they are in a prefix of the positions, which is searched by
// maximum end.
void PlacedBlocks::collect_by_tree(int32_t block) {
  const Block& b = problem_.blocks[block];
  const auto end = static_cast<int32_t>(std::ranges::lower_bound(starts_, b.last) - starts_.begin());
  found_.clear();
  stack_.assign(1, 1);
  while (!stack_.empty()) {
    const int32_t node = stack_.back();
    stack_.pop_back();
    if (tree_[node] <= b.first) continue;
    int32_t low = node;
    while (low < leaves_) low *= 2;
    if (low - leaves_ >= end) continue;
    if (node < leaves_) {
      stack_.push_back(node * 2 + 1);
      stack_.push_back(node * 2);
      continue;
    }
    const int32_t other = block_at_[node - leaves_];
    const Block& o = problem_.blocks[other];
    found_.push_back({offset_of_[other], offset_of_[other] + o.size, o.first, o.last});
  }
  std::ranges::sort(found_, {}, &Entry::offset);
}

int64_t PlacedBlocks::pass_cost(int64_t blocks, int64_t conflict_pairs) {
  return std::min(blocks * blocks / 2, conflict_pairs * kTreeCost) + blocks * 300;
}

}  // namespace genesis::passes
