// Graph with known sizes + Target -> Plan: where every value lives and in which order the nodes run. Used by
// Session.
//
// Views and in-place results are aliases of another value's memory; a state's update is written straight into
// the state where nobody reads the old value afterwards, and copied at the end of the run otherwise.
// Everything else gets an offset in one arena (passes/memory/offsets/offset_planner.h).
#pragma once

#include <vector>

#include "schema/graph/graph.h"
#include "schema/graph/plan.h"
#include "schema/graph/target.h"

namespace genesis::passes {

struct PlanOptions {
  bool in_place = true;  // off: every result gets memory of its own (to show that in-place changes nothing)
  bool schedule = true;  // off: nodes run in the graph's order
  bool reuse = true;     // off: no two buffers share memory
};

// The order in which make_plan would run the nodes.
std::vector<NodeId> planned_order(const Graph& graph, const Target& target, const PlanOptions& options = {});

// Throws Error when a node has no kernel on the target, naming the node and each implementation's reason.
Plan make_plan(const Graph& graph, const Target& target, const PlanOptions& options = {});

}  // namespace genesis::passes
