// Decides which values share memory when nodes run in a given order: the second of three steps of memory planning. make_plan calls
// it for every candidate order (passes/memory/node_order.h), to compare their peaks, and keeps the result for the best one. Values
// that alias one another have the same root. Roots in the arena get a lifetime in steps, from which the third step computes
// offsets (passes/memory/offsets/offset_planner.h).
#pragma once

#include <map>
#include <vector>

#include "schema/graph/graph.h"
#include "schema/graph/plan.h"

namespace genesis::passes {

struct Root {
  Space space = Space::kArena;
  int32_t index = 0;  // index of the state, constant or input
  int64_t bytes = 0;
  int first = 0;  // in the arena: alive in steps [first, last]
  int last = 0;
  ValueId value;  // the value it was created for
};

// The memory of a value: its bytes in root `root` from `offset` on.
struct Location {
  int32_t root = -1;
  int64_t offset = 0;
};

struct Aliasing {
  std::vector<Root> roots;
  std::vector<Location> locations;    // by value id; root is -1 for a value that nothing needs
  std::map<ValueId, int32_t> wholes;  // concatenations whose operands are written in place, with their roots
};

// Returns the updates of a graph, each followed by the values that its value is a view of: they may be written directly into
// the state as well.
std::vector<StateUpdate> updates_through_views(const Graph& graph);

// `order` lists node ids; lifetimes are positions in it. Sizes must be known. The value of an output or an update lives to the
// end (position order.size()).
Aliasing find_aliasing(const Graph& graph, const std::vector<NodeId>& order, bool in_place);

}  // namespace genesis::passes
