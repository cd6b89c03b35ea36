// Schedules which stage of a pipeline works on which micro-batch at which time: one forward, one backward (1F1B;
// PipeDream-Flush: Narayanan et al. 2019 and 2021, arXiv:2104.04473). A stage begins with enough forward passes to keep the
// later stages busy, then alternates, so that it keeps the activations of at most as many micro-batches as there are stages.
#pragma once

#include <cstdint>
#include <vector>

namespace genesis::passes {

// The forward or backward pass of one micro-batch on one stage.
struct PipelineBlock {
  int64_t stage = 0, micro_batch = 0;
  bool is_backward = false;
  double start = 0, end = 0;
};

struct PipelineSchedule {
  std::vector<PipelineBlock> blocks;  // by start, then by stage
  double span = 0;                    // from the first start to the last end
  double bubble = 0;                  // fraction of the time of all stages in which they wait
};

// The time that each stage takes for one micro-batch. `backward` is empty for a graph without a backward pass; micro-batches
// then only go forward through the stages. Every block starts when its stage has finished the previous block and the input from
// the neighboring stage is ready.
struct StageDurations {
  std::vector<double> forward, backward;  // by stage
};
PipelineSchedule one_forward_one_backward(const StageDurations& durations, int64_t micro_batches);

}  // namespace genesis::passes
