// Which stage of a pipeline computes each node of a graph, from which stage keeps each state.
//
// Forward, a node is where the last of its inputs comes from; a gradient is where the node is that it belongs to; an update is
// where its state is. What is made of inputs, constants and states that every rank has is computed by all. Whatever comes out
// of this, a graph that is split by it computes the same (split_stages.h): what is read on another stage travels.
#pragma once

#include <cstdint>
#include <vector>

#include "passes/distribution/pipeline/step_phases.h"

namespace genesis::passes {

inline constexpr int64_t kEveryStage = -1;
// Of a node that works on each of its inputs by itself: a part of it is where that input is.
inline constexpr int64_t kWhereInputsAre = -2;

struct StageAssignment {
  std::vector<int64_t> nodes;   // by node
  std::vector<int64_t> values;  // by value: the stage that has it, or kEveryStage
  std::vector<int64_t> states;  // by state of the model: the stage that keeps it, or kEveryStage
};

// `states` are what is known so far. With `claims` a parameter, an optimizer's state or one that the graph updates goes to the
// stage of the first node that reads it, where none has it yet; single numbers and states of random numbers are everywhere.
StageAssignment assign_stages(const Graph& graph, const StepPhases& phases, std::vector<int64_t> states,
                              bool claims = false);

}  // namespace genesis::passes
