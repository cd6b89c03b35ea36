// A directed acyclic graph whose nodes are joined pair by pair, as long as it stays acyclic.
//
// The nodes are kept in a topological order, so a path between two nodes only leads through nodes between them in this order.
// The search for a path starts from both ends and alternates between them edge by edge, so a query costs about twice the
// cheaper of the two searches. Joined nodes take one place in the order; the nodes between them that the finished search found
// move past it (after Pearce and Kelly, A Dynamic Topological Sort Algorithm for Directed Acyclic Graphs, 2006).
#pragma once

#include "passes/fusion/elementwise/order_list.h"

namespace genesis::passes {

class ContractedGraph {
 public:
  // All successors[i] are greater than i; they may repeat. After `budget` edges have been looked at in total, each query may
  // look at a few more only, and counts as a cycle if these do not decide it.
  explicit ContractedGraph(std::vector<std::vector<int32_t>> successors, int64_t budget = kSearchBudget);

  // Joins the node of `from` into that of `to`, a successor, and returns true. Returns false if a path leads from one to the
  // other through a third node. Each may be given by any of the nodes that were joined into it.
  bool try_join(int32_t from, int32_t to);

  // Limit of edges looked at, reached after some seconds. Only graphs beyond 100,000 nodes, or adversarial ones, need that
  // many.
  static constexpr int64_t kSearchBudget = 200'000'000;

 private:
  using Edges = std::vector<std::vector<int32_t>>;

  // One of the two directions of a search.
  struct Side {
    const Edges& edges;
    int32_t start, goal;
    uint32_t mark;                 // mark of the nodes that this side has found
    std::vector<int32_t> found{};  // in the order of discovery; the first is the start
    size_t at = 0, edge = 0;       // the next edge to look at: edge of found[at]
  };
  enum class Step { kOn, kDone, kMet };

  int32_t root(int32_t node);
  bool lies_between(int32_t node, const Side& forward) const;
  Step step(Side& side, const Side& forward, const Side& backward);
  void join(const Side& done, int32_t from, int32_t to);

  Edges successors_, predecessors_;  // by root; the entries are original nodes
  std::vector<int32_t> parents_;     // toward the root (union-find)
  std::vector<uint32_t> marks_;      // by root
  uint32_t last_mark_ = 0;
  OrderList order_;  // contains roots only
  int64_t budget_;
};

}  // namespace genesis::passes
