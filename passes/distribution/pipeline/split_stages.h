// The part of an entry point that one stage of a pipeline computes.
//
// Stages follow from the states that the context's storage keeps on one rank along "pipeline" alone (stage_assignment.h). What a
// node reads from another stage travels by send and recv; what all stages want (outputs, numbers that an update needs) goes
// from the stage that has it to each. The norm of all gradients is added up by an all_reduce.
//
// All ranks make one list of the whole entry point's nodes and exchanges, and each takes its own from it: so no order of
// exchanges can wait in a circle. The list is the 1F1B schedule's (schedule.h) for a training step of several micro-batches: an
// exchange stands where the stage that receives wants it, so that the stage that sends goes on meanwhile. In any other graph, and
// where the schedule would have a value read before it is made, the list is the graph's own order.
#pragma once

#include "passes/core/pass.h"

namespace genesis::passes {

Graph split_stages(const Graph& graph, const PassContext& context);

}  // namespace genesis::passes
