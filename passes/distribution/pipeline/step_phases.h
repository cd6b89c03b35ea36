// Which part of a training step each node belongs to, as passes/training/train_step writes steps: for every micro-batch a
// forward and a backward part, then what is done with the gradients of all.
#pragma once

#include <cstdint>
#include <vector>

#include "schema/graph/graph.h"

namespace genesis::passes {

enum class StepPart : uint8_t { kForward, kBackward, kUpdate };

struct StepPhases {
  struct Phase {
    StepPart part = StepPart::kForward;
    int64_t micro_batch = 0;
  };
  std::vector<Phase> nodes;  // by node
  int64_t micro_batches = 1;
};

// Micro-batches are told by the parts that are cut from the first input, forward nodes by the output "loss" that needs them,
// and updates begin where losses and gradients are averaged over the ranks along "data". A graph that is no such step is
// one forward part.
StepPhases phases_of(const Graph& graph);

}  // namespace genesis::passes
