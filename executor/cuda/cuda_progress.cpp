#include "executor/cuda/cuda_progress.h"

#include <algorithm>

#include "backends/cuda/runtime/progress_mark.h"

namespace genesis {
namespace {

// What the next thing on a stream that is captured would wait for.
struct CaptureEnd {
  cudaGraph_t graph = nullptr;
  std::vector<cudaGraphNode_t> nodes;
};

CaptureEnd end_of(cudaStream_t stream) {
  cudaStreamCaptureStatus status{};
  CaptureEnd end;
  const cudaGraphNode_t* nodes = nullptr;
  const cudaGraphEdgeData* edges = nullptr;
  size_t count = 0;
  cuda::check(cudaStreamGetCaptureInfo(stream, &status, nullptr, &end.graph, &nodes, &edges, &count),
              "marking a step");
  end.nodes.assign(nodes, nodes + count);
  return end;
}

}  // namespace

CudaProgress::CudaProgress(const Plan& plan)
    : plan_(plan), set_(cuda::allocate_pinned(static_cast<int64_t>(plan.steps.size() * sizeof(int32_t)))) {}

void CudaProgress::begin_capture(const StepStreams& streams) {
  std::vector<double> microseconds;
  for (const Step& step : plan_.steps) microseconds.push_back(least_microseconds(step));
  marks_.emplace(streams, std::move(microseconds));
  stream_of_ = streams.stream;
  knows_ = true;
  for (cudaGraphNode_t& node : last_mark_) node = nullptr;
}

// Marks of a stream follow each other: one branch of the graph beside it, not as many as there are marks.
void CudaProgress::captured(size_t first, size_t end, cudaStream_t stream) {
  const int mark = marks_->add(first, end);
  if (mark == StepMarks::kNone) return;
  CaptureEnd behind = end_of(stream);
  cudaGraphNode_t& last = last_mark_[stream_of_[first]];
  if (last) behind.nodes.push_back(last);
  last = cuda::add_progress_mark(behind.graph, behind.nodes, set() + mark);
  if (!last) knows_ = false;
}

std::vector<size_t> CudaProgress::under_way() const {
  return knows_ ? marks_->under_way(set()) : std::vector<size_t>();
}

void CudaProgress::begin_run() { std::fill_n(set(), plan_.steps.size(), 0); }

}  // namespace genesis
