// How far a run on a GPU has come, as the run itself tells the host. CUDA says that a run failed, not where,
// and what lies in the device's memory is lost by then; pinned memory can still be read. Used by
// cuda_runner.cpp, to name the node in the error.
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

  // A capture begins; what was captured before runs no more.
  void begin_capture(const StepStreams& streams);
  // Steps [first, end) have just been captured on `stream`: a mark may go behind them.
  void captured(size_t first, size_t end, cudaStream_t stream);

  // Before a run of what was captured, when none goes on.
  void begin_run();
  // Steps that a run which failed may have been in, in the plan's order; empty where nobody knows.
  std::vector<size_t> under_way() const;

 private:
  int32_t* set() const { return reinterpret_cast<int32_t*>(set_.get()); }

  const Plan& plan_;
  const StreamSpeeds speeds_;
  std::shared_ptr<std::byte> set_;  // pinned, by mark: 1 when it is set
  std::optional<StepMarks> marks_;
  bool knows_ = false;              // the driver took all marks
  std::vector<uint8_t> stream_of_;  // by step
  cudaGraphNode_t reset_ = nullptr;  // the first node: runs follow each other without the host
  cudaGraphNode_t last_mark_[StepStreams::kStreams] = {};
};

}  // namespace genesis
