#include "backends/cuda/runtime/progress_mark.h"

#include <cuda.h>

#include "backends/cuda/runtime/libraries.h"

namespace genesis::cuda {
namespace {

CUcontext current_context() {
  static const auto ask = driver().function<decltype(&cuCtxGetCurrent)>("cuCtxGetCurrent");
  CUcontext context = nullptr;
  ask(&context);
  return context;
}

}  // namespace

cudaGraphNode_t add_progress_mark(cudaGraph_t graph, const std::vector<cudaGraphNode_t>& behind,
                                  int32_t* word) {
  static const auto add = driver().function<decltype(&cuGraphAddBatchMemOpNode)>("cuGraphAddBatchMemOpNode");
  CUstreamBatchMemOpParams write{};
  write.writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
  write.writeValue.address = reinterpret_cast<CUdeviceptr>(word);
  write.writeValue.value = 1;
  CUDA_BATCH_MEM_OP_NODE_PARAMS parameters{};
  parameters.ctx = current_context();
  parameters.count = 1;
  parameters.paramArray = &write;
  CUgraphNode node = nullptr;
  return add(&node, graph, behind.data(), behind.size(), &parameters) == CUDA_SUCCESS ? node : nullptr;
}

cudaGraphNode_t add_progress_reset(cudaGraph_t graph, int32_t* words, size_t count) {
  cudaMemsetParams parameters{};
  parameters.dst = words;
  parameters.elementSize = sizeof *words;
  parameters.width = count;
  parameters.height = 1;
  cudaGraphNode_t node = nullptr;
  if (cudaGraphAddMemsetNode(&node, graph, nullptr, 0, &parameters) == cudaSuccess) return node;
  cudaGetLastError();
  return nullptr;
}

}  // namespace genesis::cuda
