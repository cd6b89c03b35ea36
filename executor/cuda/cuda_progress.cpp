#include "executor/cuda/cuda_progress.h"

#include <algorithm>

#include "backends/cuda/runtime/graph_choice.h"
#include "backends/cuda/runtime/progress_mark.h"

namespace genesis {

CudaProgress::CudaProgress(const Plan& plan, const StreamSpeeds& speeds)
    : plan_(plan),
      speeds_(speeds),
      set_(cuda::allocate_pinned(static_cast<int64_t>(plan.steps.size() * sizeof(int32_t)))) {}

void CudaProgress::begin_capture(const StepStreams& streams) {
  std::vector<double> microseconds;
  for (const Step& step : plan_.steps) microseconds.push_back(least_microseconds(step, speeds_));
  marks_.emplace(streams, std::move(microseconds));
  stream_of_ = streams.stream;
  knows_ = true;
  reset_ = nullptr;
  for (cudaGraphNode_t& node : last_mark_) node = nullptr;
}

// Chains the marks of a stream: the graph gets one more branch per stream instead of one per mark.
void CudaProgress::captured(size_t first, size_t end, cudaStream_t stream) {
  const int mark = marks_->add(first, end);
  if (mark == StepMarks::kNone) return;
  cuda::CaptureEnd behind = cuda::capture_end(stream);
  if (!reset_) reset_ = cuda::add_progress_reset(behind.graph, set(), plan_.steps.size());
  cudaGraphNode_t& last = last_mark_[stream_of_[first]];
  if (last || reset_) behind.nodes.push_back(last ? last : reset_);
  last = cuda::add_progress_mark(behind.graph, behind.nodes, set() + mark);
  if (!last || !reset_) knows_ = false;
}

std::vector<size_t> CudaProgress::under_way() const {
  return knows_ ? marks_->under_way(set()) : std::vector<size_t>();
}

void CudaProgress::begin_run() { std::fill_n(set(), plan_.steps.size(), 0); }

}  // namespace genesis
