// A directed graph without cycles whose nodes are joined one pair after the other, as long as it stays
// without cycles. Used by passes/fusion/elementwise/fusion_groups.
//
// The nodes are kept in a topological order, so a way from one to another can only lead through those between
// them. It is looked for from both ends at once, edge by edge in turn, so a question costs about twice what
// the nearer end has to look at. Joined nodes take one place, and of what lies between them the side that was
// looked through moves past it (after Pearce and Kelly, A Dynamic Topological Sort Algorithm for Directed
// Acyclic Graphs, 2006).
#pragma once

#include "passes/fusion/elementwise/order_list.h"

namespace genesis::passes {

class ContractedGraph {
 public:
  // successors[i] are all greater than i; they may repeat. After `budget` edges have been looked at in all,
  // only few are for a question, and what these do not tell counts as a cycle.
  explicit ContractedGraph(std::vector<std::vector<int32_t>> successors, int64_t budget = kSearchBudget);

  // Joins the node of `from` to that of `to`, which follows on it, and says so; not where a way leads from
  // one to the other through a third. Both are named by any of those that were joined into them.
  bool try_join(int32_t from, int32_t to);

  // Edges looked at: some seconds. Graphs that take so many are beyond 100,000 nodes, or made for it.
  static constexpr int64_t kSearchBudget = 200'000'000;

 private:
  using Edges = std::vector<std::vector<int32_t>>;

  // One end of a search.
  struct Side {
    const Edges& edges;
    int32_t start, goal;
    uint32_t mark;                 // of nodes it has found
    std::vector<int32_t> found{};  // in the order they were found; the first is the start
    size_t at = 0, edge = 0;       // the next to look at: edge of found[at]
  };
  enum class Step { kOn, kDone, kMet };

  int32_t root(int32_t node);
  bool lies_between(int32_t node, const Side& forward) const;
  Step step(Side& side, const Side& forward, const Side& backward);
  void join(const Side& done, int32_t from, int32_t to);

  Edges successors_, predecessors_;  // by root; of nodes as they were in the beginning
  std::vector<int32_t> parents_;     // towards the root
  std::vector<uint32_t> marks_;      // by root
  uint32_t last_mark_ = 0;
  OrderList order_;  // of roots
  int64_t budget_;
};

}  // namespace genesis::passes
