#include "backends/cuda/runtime/graph_choice.h"

#include "backends/cuda/runtime/runtime.h"

namespace genesis::cuda {
namespace {

void capture_body(cudaGraph_t graph, cudaStream_t stream, const std::function<void()>& body) {
  check(cudaStreamBeginCaptureToGraph(stream, graph, nullptr, nullptr, 0, cudaStreamCaptureModeRelaxed),
        "beginning to capture the body of a conditional node");
  cudaGraph_t same = nullptr;
  try {
    body();
  } catch (...) {
    cudaStreamEndCapture(stream, &same);
    throw;
  }
  check(cudaStreamEndCapture(stream, &same), "capturing the body of a conditional node");
}

// Adds a conditional node behind the work of `stream` and captures its bodies.
void capture_conditional(cudaStream_t stream, cudaGraphConditionalHandle handle,
                         cudaGraphConditionalNodeType type, int bodies,
                         const std::function<void(int, cudaStream_t)>& body) {
  const CaptureEnd end = capture_end(stream);
  cudaGraphNodeParams parameters{};
  parameters.type = cudaGraphNodeTypeConditional;
  parameters.conditional.handle = handle;
  parameters.conditional.type = type;
  parameters.conditional.size = static_cast<unsigned>(bodies);
  cudaGraphNode_t node = nullptr;
  check(cudaGraphAddNode(&node, end.graph, end.nodes.data(), end.edges.empty() ? nullptr : end.edges.data(),
                         end.nodes.size(), &parameters),
        "adding a conditional node");
  check(cudaStreamUpdateCaptureDependencies(stream, &node, nullptr, 1, cudaStreamSetCaptureDependencies),
        "continuing after a conditional node");
  const Stream inside = make_stream();
  for (int i = 0; i < bodies; ++i)
    capture_body(parameters.conditional.phGraph_out[i], inside.get(), [&] { body(i, inside.get()); });
}

}  // namespace

CaptureEnd capture_end(cudaStream_t stream) {
  cudaStreamCaptureStatus status{};
  CaptureEnd end;
  const cudaGraphNode_t* nodes = nullptr;
  const cudaGraphEdgeData* edges = nullptr;
  size_t count = 0;
  check(cudaStreamGetCaptureInfo(stream, &status, nullptr, &end.graph, &nodes, &edges, &count),
        "looking for the graph that is captured");
  end.nodes.assign(nodes, nodes + count);
  if (edges) end.edges.assign(edges, edges + count);
  return end;
}

bool is_captured(cudaStream_t stream) {
  cudaStreamCaptureStatus status{};
  check(cudaStreamIsCapturing(stream, &status), "asking whether a graph is captured");
  return status == cudaStreamCaptureStatusActive;
}

cudaGraphConditionalHandle make_choice(cudaStream_t stream) {
  cudaGraphConditionalHandle choice{};
  check(cudaGraphConditionalHandleCreate(&choice, capture_end(stream).graph), "making a choice of a graph");
  return choice;
}

void capture_choice(cudaStream_t stream, cudaGraphConditionalHandle choice, int bodies,
                    const std::function<void(int, cudaStream_t)>& body) {
  capture_conditional(stream, choice, cudaGraphCondTypeSwitch, bodies, body);
}

void capture_while(cudaStream_t stream, cudaGraphConditionalHandle goes_on,
                   const std::function<void(cudaStream_t)>& body) {
  capture_conditional(stream, goes_on, cudaGraphCondTypeWhile, 1,
                      [&](int, cudaStream_t inside) { body(inside); });
}

}  // namespace genesis::cuda
