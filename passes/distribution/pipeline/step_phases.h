// Assigns each node of a training step to a phase, as passes/training/train_step writes steps: a forward and a backward phase
// for every micro-batch, then a phase that updates states from the gradients of all.
#pragma once

#include <cstdint>
#include <vector>

#include "schema/graph/graph.h"

namespace genesis::passes {

enum class StepPhase : uint8_t { kForward, kBackward, kUpdate };

struct StepPhases {
  struct NodePhase {
    StepPhase phase = StepPhase::kForward;
    int64_t micro_batch = 0;
  };
  std::vector<NodePhase> nodes;  // by node id
  int64_t micro_batches = 1;
};

// Finds a node's micro-batch by the slice of the first input that precedes it. Forward nodes are those that the output "loss"
// and the outputs averaged with it need; the update phase begins where losses and gradients are averaged over the ranks along
// "data". A graph that is no such step is a single forward phase.
StepPhases phases_of(const Graph& graph);

}  // namespace genesis::passes
