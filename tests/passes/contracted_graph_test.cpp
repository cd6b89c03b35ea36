// Tests joining nodes without making cycles, against a search through the whole graph.
#include "passes/fusion/elementwise/contracted_graph.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace genesis::passes {
namespace {

using Edges = std::vector<std::vector<int32_t>>;

Edges random_edges(int32_t nodes, int32_t degree, int32_t reach, std::mt19937& random) {
  Edges edges(static_cast<size_t>(nodes));
  for (int32_t i = 0; i + 1 < nodes; ++i)
    for (int32_t k = 0; k < degree; ++k) {
      const int32_t last = std::min(nodes - 1, i + reach);
      edges[static_cast<size_t>(i)].push_back(
          i + 1 + static_cast<int32_t>(random() % static_cast<uint32_t>(last - i)));
    }
  return edges;
}

// Does the same by an exhaustive search.
class Plain {
 public:
  explicit Plain(const Edges& edges) : edges_(edges) {
    for (size_t i = 0; i < edges.size(); ++i) group_.push_back(static_cast<int32_t>(i));
  }

  bool try_join(int32_t from, int32_t to) {
    const int32_t a = group(from), b = group(to);
    if (leads_past(a, b)) return false;
    std::replace(group_.begin(), group_.end(), a, b);
    return true;
  }
  int32_t group(int32_t node) const { return group_[static_cast<size_t>(node)]; }

 private:
  bool leads_past(int32_t a, int32_t b) const {
    std::vector<bool> seen(edges_.size());
    std::vector<int32_t> open = {a};
    while (!open.empty()) {
      const int32_t at = open.back();
      open.pop_back();
      for (size_t i = 0; i < edges_.size(); ++i) {
        if (group_[i] != at) continue;
        for (const int32_t reader : edges_[i]) {
          const int32_t next = group(reader);
          if (next == b && at != a) return true;
          if (next == b || next == at || seen[static_cast<size_t>(next)]) continue;
          seen[static_cast<size_t>(next)] = true;
          open.push_back(next);
        }
      }
    }
    return false;
  }

  const Edges& edges_;
  std::vector<int32_t> group_;
};

TEST(ContractedGraph, AnswersWhatASearchThroughEverythingAnswers) {
  std::mt19937 random(7);
  int joined = 0, refused = 0;
  for (int round = 0; round < 60; ++round) {
    const Edges edges = random_edges(60, 1 + round % 3, round % 2 == 0 ? 5 : 60, random);
    Plain plain(edges);
    ContractedGraph graph(edges);
    for (int32_t i = 60; i-- > 0;)
      for (const int32_t next : edges[static_cast<size_t>(i)]) {
        // Some stay separate: if everything were joined from the end, no path would be left that leads around.
        if (plain.group(i) == plain.group(next) || random() % 2 == 0) continue;
        const bool may = plain.try_join(i, next);
        ASSERT_EQ(graph.try_join(i, next), may) << "round " << round << ", edge " << i << " -> " << next;
        ++(may ? joined : refused);
      }
  }
  EXPECT_GT(joined, 500);
  EXPECT_GT(refused, 300);
}

// A node with two long paths that never meet is joined with one that two others lead to: both searches are long.
TEST(ContractedGraph, WithoutABudgetALongSearchCountsAsACycle) {
  constexpr int32_t kLong = 400;
  Edges edges(2 * kLong + 2);
  const int32_t from = 0, to = 2 * kLong + 1;
  edges[from] = {to, 1};
  for (int32_t i = 1; i < kLong; ++i) edges[static_cast<size_t>(i)] = {i + 1};
  for (int32_t i = kLong + 1; i <= 2 * kLong; ++i) edges[static_cast<size_t>(i)] = {i + 1};
  EXPECT_TRUE(ContractedGraph(edges).try_join(from, to));
  ContractedGraph poor(edges, 0);
  EXPECT_FALSE(poor.try_join(from, to));
  EXPECT_TRUE(poor.try_join(2 * kLong, to)) << "what is near is still found";
}

TEST(OrderList, KeepsOrderWhereverMembersAreInserted) {
  constexpr int32_t kCount = 3000;
  std::mt19937 random(3);
  for (const bool everywhere : {true, false}) {
    OrderList list(kCount);
    std::vector<int32_t> order(kCount);
    for (int32_t i = 0; i < kCount; ++i) order[static_cast<size_t>(i)] = i;
    for (int32_t i = 0; i < kCount; ++i) {
      const size_t from = random() % kCount;
      const int32_t member = order[from];
      order.erase(order.begin() + static_cast<std::ptrdiff_t>(from));
      const size_t place = everywhere ? random() % order.size() : i % 2 == 0 ? 0 : order.size() / 2;
      list.erase(member);
      const bool after = random() % 2 == 0;
      if (after)
        list.insert_after(member, order[place]);
      else
        list.insert_before(member, order[place]);
      order.insert(order.begin() + static_cast<std::ptrdiff_t>(place + (after ? 1 : 0)), member);
    }
    for (size_t i = 1; i < order.size(); ++i) ASSERT_TRUE(list.is_before(order[i - 1], order[i])) << i;
  }
}

}  // namespace
}  // namespace genesis::passes
