// Makes the graph that one stage of a pipeline computes.
//
// Stages follow from the states that the context's storage keeps on only one rank along "pipeline" (stage_assignment.h). Values
// that a node reads from another stage are exchanged by send and recv; values that all stages need (outputs, numbers for an
// update) are sent from their stage to each other one. The norm of all gradients is summed by an all_reduce.
//
// All ranks make the same list of the whole entry point's nodes and exchanges, and each takes its own from it: so no order of
// exchanges can deadlock. For a training step of several micro-batches the list follows the 1F1B schedule (schedule.h): an
// exchange is placed where the receiving stage needs it, so that the sending stage continues meanwhile. For any other graph,
// and if the schedule would read a value before it is computed, the list has the graph's own order.
#pragma once

#include "passes/core/pass.h"

namespace genesis::passes {

Graph split_stages(const Graph& graph, const PassContext& context);

}  // namespace genesis::passes
