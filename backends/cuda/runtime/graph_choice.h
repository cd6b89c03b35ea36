// Conditional work in a captured graph (CUDA's conditional nodes): a kernel sets a number, and a later node runs the
// body with that number, or its only body as long as the number is not 0. Work that depends on data then needs no
// synchronization with the host.
#pragma once

#include <cuda_runtime_api.h>

#include <functional>
#include <vector>

namespace genesis::cuda {

// The graph that a stream is captured into, and the nodes that its next node would depend on.
struct CaptureEnd {
  cudaGraph_t graph = nullptr;
  std::vector<cudaGraphNode_t> nodes;
  std::vector<cudaGraphEdgeData> edges;  // one per node, or empty if all are full dependencies
};
CaptureEnd capture_end(cudaStream_t stream);  // throws Error

// Returns whether `stream` is being captured now. Without a capture there is no graph that could choose.
bool is_captured(cudaStream_t stream);

// Creates a conditional handle in the graph that `stream` is captured into; a kernel sets it with
// cudaGraphSetConditional(). Throws Error.
cudaGraphConditionalHandle make_choice(cudaStream_t stream);

// Captures a conditional node after the work of `stream`. body(i, stream of the body) issues the work that runs if
// the choice is i; nothing runs if the choice is `bodies` or more. A body's kernels do not start early (launch.h).
// Throws Error.
void capture_choice(cudaStream_t stream, cudaGraphConditionalHandle choice, int bodies,
                    const std::function<void(int, cudaStream_t)>& body);

// Captures a node after the work of `stream` that repeats body(stream of the body) while the number is not 0; the body's
// own kernels set the number for the next repetition. As in capture_choice(), they do not start early. Throws Error.
void capture_while(cudaStream_t stream, cudaGraphConditionalHandle goes_on,
                   const std::function<void(cudaStream_t)>& body);

}  // namespace genesis::cuda
