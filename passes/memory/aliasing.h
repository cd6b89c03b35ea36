// Which values share memory: the first half of memory planning. Values that alias one another have the same
// root; roots in the arena get a lifetime in steps, which passes/memory/make_plan turns into offsets.
#pragma once

#include <map>
#include <vector>

#include "schema/graph/graph.h"
#include "schema/graph/plan.h"

namespace genesis::passes {

struct Root {
  Space space = Space::kArena;
  int32_t index = 0;  // of the state, constant or input
  int64_t bytes = 0;
  int first = 0;  // arena: alive in steps [first, last]
  int last = 0;
  ValueId value;  // the value it was made for
};

// A value's memory: `bytes` of root `root` from `offset`.
struct Location {
  int32_t root = -1;
  int64_t offset = 0;
};

struct Aliasing {
  std::vector<Root> roots;
  std::vector<Location> locations;    // by value id; root -1 for a value nobody needs
  std::map<ValueId, int32_t> wholes;  // concatenations whose parts are made in their places, with their roots
};

// The updates of a graph, and behind each what its value is another shape of: that, too, may be written straight into the
// state.
std::vector<StateUpdate> updates_through_views(const Graph& graph);

// `order` lists node ids; lifetimes are positions in it. Sizes must be known. A value that is an output or an
// update lives to the end (position order.size()).
Aliasing find_aliasing(const Graph& graph, const std::vector<NodeId>& order, bool in_place);

}  // namespace genesis::passes
