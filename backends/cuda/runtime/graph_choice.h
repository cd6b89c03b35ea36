// Work of a captured graph that the graph itself chooses each time it runs: a kernel sets a number, and a later node runs the
// body of that number (CUDA's conditional nodes). So work that depends on data needs no wait of the host.
#pragma once

#include <cuda_runtime_api.h>

#include <functional>
#include <vector>

namespace genesis::cuda {

// The graph that a stream is captured into, and what its next node would wait for.
struct CaptureEnd {
  cudaGraph_t graph = nullptr;
  std::vector<cudaGraphNode_t> nodes;
  std::vector<cudaGraphEdgeData> edges;  // of the same number, or none: all are whole dependencies
};
CaptureEnd capture_end(cudaStream_t stream);  // throws Error

// Whether what `stream` is given is captured now. Where it is not, there is no graph that could choose.
bool is_captured(cudaStream_t stream);

// A number of the graph that `stream` is captured into, for a kernel to set with cudaGraphSetConditional(). Throws Error.
cudaGraphConditionalHandle make_choice(cudaStream_t stream);

// Captures a node behind what `stream` has: body(i, its stream) starts what runs where the choice is i, and nothing runs where
// it is `bodies` or more. A body's kernels do not start early (launch.h). Throws Error.
void capture_choice(cudaStream_t stream, cudaGraphConditionalHandle choice, int bodies,
                    const std::function<void(int, cudaStream_t)>& body);

}  // namespace genesis::cuda
