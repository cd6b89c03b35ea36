// Decides which stage of a pipeline computes each node of a graph, from the stages that keep the states.
//
// A forward node is computed on the last stage that one of its inputs comes from; a gradient on the stage of its forward node;
// an update on the stage of its state. All stages compute values that only depend on inputs, constants and states that every
// rank has. A graph that is split by any such assignment computes the same (split_stages.h): values that another stage reads
// are sent.
#pragma once

#include <cstdint>
#include <vector>

#include "passes/distribution/pipeline/step_phases.h"

namespace genesis::passes {

inline constexpr int64_t kEveryStage = -1;
// Marks a node that works on each of its inputs separately: each stage computes it for its own inputs.
inline constexpr int64_t kWhereInputsAre = -2;

struct StageAssignment {
  std::vector<int64_t> nodes;   // by node id: the stage that computes it, kEveryStage or kWhereInputsAre
  std::vector<int64_t> values;  // by value id: the stage that has it, or kEveryStage
  std::vector<int64_t> states;  // by state of the model: the stage that keeps it, or kEveryStage
};

// `states` are the stages known so far. With `claims`, a state without a stage goes to the stage of the first node that reads
// it, if it is a parameter, a state of the optimizer or a buffer that the graph updates; single numbers and states of random
// numbers stay everywhere.
StageAssignment assign_stages(const Graph& graph, const StepPhases& phases, std::vector<int64_t> states,
                              bool claims = false);

}  // namespace genesis::passes
