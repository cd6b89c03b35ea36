// When each stage of a pipeline works on which micro-batch: one forward, one backward (1F1B; PipeDream-Flush: Narayanan et
// al. 2019 and 2021, arXiv:2104.04473). A stage begins with so many forward parts that the stages behind it are busy, then
// takes turns, so that it keeps the activations of no more micro-batches than there are stages.
#pragma once

#include <cstdint>
#include <vector>

namespace genesis::passes {

// The work of a stage on a micro-batch.
struct PipelineBlock {
  int64_t stage = 0, micro_batch = 0;
  bool is_backward = false;
  double start = 0, end = 0;
};

struct PipelineSchedule {
  std::vector<PipelineBlock> blocks;  // by start, then by stage
  double span = 0;                    // from the first start to the last end
  double bubble = 0;                  // of the time of all stages, the part in which they wait
};

// How long each stage takes for one micro-batch. Without backward parts, whose durations are then empty, all stages are a
// line. Every block begins when its stage has done the one ahead and what it needs of its neighbour is there.
struct StageDurations {
  std::vector<double> forward, backward;  // by stage
};
PipelineSchedule one_forward_one_backward(const StageDurations& durations, int64_t micro_batches);

}  // namespace genesis::passes
