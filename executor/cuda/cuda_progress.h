// Tracks how far a run on a GPU has come, by marks that the run writes to pinned memory. When a run fails, CUDA does not say
// where, and device memory is lost; pinned memory can still be read. So the error can name the node.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "backends/cuda/runtime/runtime.h"
#include "executor/cuda/step_marks.h"
#include "schema/graph/plan.h"
#include "schema/graph/target.h"

namespace genesis {

class CudaProgress {
 public:
  CudaProgress(const Plan& plan, const StreamSpeeds& speeds);

  // Begins a capture and discards the marks of the previous one.
  void begin_capture(const StepStreams& streams);
  // Tells that steps [first, end) have just been captured on `stream`. May add a mark behind them.
  void captured(size_t first, size_t end, cudaStream_t stream);

  // Resets the marks. Call it before a run of the captured graph, when no run is under way.
  void begin_run();
  // Returns the steps that a failed run may have been in, in the plan's order; empty if unknown.
  std::vector<size_t> under_way() const;

 private:
  int32_t* set() const { return reinterpret_cast<int32_t*>(set_.get()); }

  const Plan& plan_;
  const StreamSpeeds speeds_;
  std::shared_ptr<std::byte> set_;  // pinned, by mark: 1 if it is set
  std::optional<StepMarks> marks_;
  bool knows_ = false;              // the driver accepted all marks
  std::vector<uint8_t> stream_of_;  // by step
  cudaGraphNode_t reset_ = nullptr;  // the first node, since runs may follow each other without the host
  cudaGraphNode_t last_mark_[StepStreams::kStreams] = {};
};

}  // namespace genesis
