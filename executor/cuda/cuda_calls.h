// The steps of one plan as calls of kernels on a GPU, with a launch for each. The runner has one object for its plan, and a loop among the steps
// has one for its body: in a captured graph a loop is a conditional node (backends/cuda/runtime/graph_loop.h), so that the host waits for none
// of its steps. A loop that is started outside of a capture starts a graph of its own.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "backends/cuda/runtime/launch.h"
#include "backends/cuda/runtime/runtime.h"
#include "executor/runtime/step_call.h"

namespace genesis {

// Returns what `body` issues on a stream as a graph. Nothing runs.
cuda::GraphExec capture_graph(cudaStream_t stream, const std::function<void()>& body);

class CudaCalls {
 public:
  // Kernels report to `fault`, which is pinned memory, under numbers: those of the steps from `first` on, behind them those of the bodies of
  // loops. Throws Error that names a node without a kernel.
  CudaCalls(const Plan& plan, const RunnerOptions& options, cudaStream_t stream, cuda::DeviceFault* fault,
            int32_t first = 0);
  ~CudaCalls();

  const std::vector<StepCall>& all() const { return calls_; }
  const std::vector<cuda::Launch>& launches() const { return launches_; }  // by step
  // Returns the call that reports under this number, one of these or of a body.
  const StepCall& numbered(int32_t number) const;
  int32_t end() const { return end_; }  // no call has this number or a greater one

  // Sets the addresses. Graphs that were captured before hold the old ones.
  void place(const PlanMemory& memory);
  // Calls start(launch) with the launch of a step on this stream; the step's kernels may start before those ahead have ended if `early`.
  template <class Start>
  void on_stream(size_t step, cudaStream_t stream, bool early, const Start& start) {
    const Changed changed(launches_[step]);
    launches_[step].stream = stream, launches_[step].early = early;
    start(launches_[step]);
  }
  // Starts a step by its own kernel. Throws Error that names the node if CUDA refuses.
  void start(size_t step) const;

 private:
  class Loop;
  // A launch that gets its usual settings back in the end.
  struct Changed {
    explicit Changed(cuda::Launch& one) : launch(one), usual(one) {}
    ~Changed() { launch = usual; }
    Changed(const Changed&) = delete;
    cuda::Launch& launch;
    const cuda::Launch usual;
  };

  void add_loop(size_t step, const RunnerOptions& options, cuda::DeviceFault* fault);

  const Plan& plan_;
  std::vector<StepCall> calls_;
  std::vector<cuda::Launch> launches_;
  std::vector<std::shared_ptr<Loop>> loops_;
  const int32_t first_;
  int32_t end_;
  Fault host_fault_;  // unused: CUDA kernels report through their launch
};

}  // namespace genesis
