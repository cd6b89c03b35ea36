// The nodes of an entry point and what its stages exchange, in one order that is the same on all ranks.
#pragma once

#include <map>
#include <vector>

#include "passes/distribution/pipeline/stage_assignment.h"

namespace genesis::passes {

struct Transfer {
  ValueId value;
  int64_t from = 0, to = 0;  // stages
};

struct StageList {
  std::vector<size_t> nodes;  // of the graph, each once; none before what it reads
  std::map<size_t, std::vector<Transfer>>
      transfers;  // before the node at that place; nodes.size(): behind all
};

// In the order of the 1F1B schedule, or that of the graph where the schedule does not fit.
StageList list_stages(const Graph& graph, const StepPhases& phases, const StageAssignment& assignment,
                      int64_t stages);

}  // namespace genesis::passes
