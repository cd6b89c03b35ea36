// Makes a plan for a graph with known sizes and a target: the memory of every value and the order of the nodes.
//
// Views and in-place results alias another value's memory. The update of a state is written directly into the state if nothing
// reads the old value afterwards, and copied at the end of the run otherwise. All other values get an offset in one arena
// (passes/memory/offsets/offset_planner.h).
#pragma once

#include <vector>

#include "schema/graph/graph.h"
#include "schema/graph/plan.h"
#include "schema/graph/target.h"

namespace genesis::passes {

struct PlanOptions {
  bool in_place = true;  // false: every result gets its own memory (to show that in-place changes nothing)
  bool schedule = true;  // false: nodes run in the graph's order
  bool reuse = true;     // false: no two buffers share memory
};

// Returns the order in which make_plan would run the nodes.
std::vector<NodeId> planned_order(const Graph& graph, const Target& target, const PlanOptions& options = {});

// Throws an Error if a node has no kernel on the target, naming the node and each implementation's reason. `bodies` are the plans of the
// entry points that loops of the graph run, whose memory is scratch memory of the loops; a loop without one has none.
Plan make_plan(const Graph& graph, const Target& target, const PlanOptions& options = {},
               std::vector<Plan> bodies = {});

}  // namespace genesis::passes
