// Which phase of a training step each node belongs to, as passes/training/train_step writes steps: a forward and a backward phase for
// every micro-batch, then the phase that updates states from the gradients of all.
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
  std::vector<NodePhase> nodes;  // by node
  int64_t micro_batches = 1;
};

// A node's micro-batch is found by the slice of the first input that it is computed from. Forward nodes are those that the output
// "loss" needs; the update phase begins where losses and gradients are averaged over the ranks along "data". A graph that is no such
// step is one forward phase.
StepPhases phases_of(const Graph& graph);

}  // namespace genesis::passes
