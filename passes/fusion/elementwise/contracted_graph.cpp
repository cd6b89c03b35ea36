#include "passes/fusion/elementwise/contracted_graph.h"

#include <algorithm>
#include <numeric>

namespace genesis::passes {
namespace {

constexpr int64_t kMinSteps = 100;  // edges that every query may look at

std::vector<std::vector<int32_t>> reversed(const std::vector<std::vector<int32_t>>& edges) {
  std::vector<std::vector<int32_t>> result(edges.size());
  for (size_t i = 0; i < edges.size(); ++i)
    for (const int32_t to : edges[i]) result[static_cast<size_t>(to)].push_back(static_cast<int32_t>(i));
  return result;
}

// Appends `from` to `to`, in any order.
void move_all(std::vector<int32_t>& from, std::vector<int32_t>& to) {
  if (from.size() > to.size()) std::swap(from, to);
  to.insert(to.end(), from.begin(), from.end());
  std::vector<int32_t>().swap(from);
}

}  // namespace

ContractedGraph::ContractedGraph(Edges successors, int64_t budget)
    : successors_(std::move(successors)),
      predecessors_(reversed(successors_)),
      parents_(successors_.size()),
      marks_(successors_.size(), 0),
      order_(successors_.size()),
      budget_(budget) {
  std::iota(parents_.begin(), parents_.end(), 0);
}

int32_t ContractedGraph::root(int32_t node) {
  const auto parent = [&](int32_t i) -> int32_t& { return parents_[static_cast<size_t>(i)]; };
  while (parent(node) != node) node = parent(node) = parent(parent(node));
  return node;
}

bool ContractedGraph::try_join(int32_t from, int32_t to) {
  from = root(from);
  to = root(to);
  Side forward{successors_, from, to, ++last_mark_, {from}};
  Side backward{predecessors_, to, from, ++last_mark_, {to}};
  for (int64_t steps = 0; steps < std::max(budget_, kMinSteps);) {
    for (Side* side : {&backward, &forward}) {
      ++steps;
      const Step result = step(*side, forward, backward);
      if (result == Step::kOn) continue;
      budget_ -= steps;
      if (result == Step::kDone) join(*side, from, to);
      return result == Step::kDone;
    }
  }
  budget_ = 0;
  return false;
}

bool ContractedGraph::lies_between(int32_t node, const Side& forward) const {
  return order_.is_before(forward.start, node) && order_.is_before(node, forward.goal);
}

// Looks at one edge.
ContractedGraph::Step ContractedGraph::step(Side& side, const Side& forward, const Side& backward) {
  while (side.edge == side.edges[static_cast<size_t>(side.found[side.at])].size()) {
    side.edge = 0;
    if (++side.at == side.found.size()) return Step::kDone;
  }
  const int32_t node = side.found[side.at];
  const int32_t next = root(side.edges[static_cast<size_t>(node)][side.edge++]);
  if (next == side.goal) return node == side.start ? Step::kOn : Step::kMet;
  if (!lies_between(next, forward)) return Step::kOn;
  uint32_t& mark = marks_[static_cast<size_t>(next)];
  if (mark == side.mark) return Step::kOn;
  if (mark == forward.mark || mark == backward.mark) return Step::kMet;
  mark = side.mark;
  side.found.push_back(next);
  return Step::kOn;
}

// Moves the nodes that the search found: successors of `from` behind `to`, or predecessors of `to` before `from`. Then both can
// take one place in the order.
void ContractedGraph::join(const Side& done, int32_t from, int32_t to) {
  std::vector<int32_t> moved(done.found.begin() + 1, done.found.end());
  std::ranges::sort(moved, [&](int32_t a, int32_t b) { return order_.is_before(a, b); });
  for (const int32_t node : moved) order_.erase(node);
  if (done.start == from) {
    for (size_t i = moved.size(); i-- > 0;) order_.insert_after(moved[i], to);
  } else {
    for (const int32_t node : moved) order_.insert_before(node, from);
    order_.erase(to);
    order_.insert_after(to, from);
  }
  order_.erase(from);
  parents_[static_cast<size_t>(from)] = to;
  move_all(successors_[static_cast<size_t>(from)], successors_[static_cast<size_t>(to)]);
  move_all(predecessors_[static_cast<size_t>(from)], predecessors_[static_cast<size_t>(to)]);
}

}  // namespace genesis::passes
