// The CUDA runtime as the rest of the house uses it: every call checked, every resource owned. Used by
// executor/cuda_*; kernels see only launch.h.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace genesis::cuda {

// Throws Error with CUDA's name of what went wrong and what was being done.
void check(cudaError_t status, const char* doing);

struct Chip {
  std::string name;
  int major = 0, minor = 0;  // compute capability
  int multiprocessors = 0;
  int64_t memory_bytes = 0, l2_bytes = 0;
};

// Throws Error when there is no driver, no such device, or a chip older than 8.0 (Ampere).
Chip open_chip(int device);
// Of the device current in this thread.
const Chip& current_chip();
int64_t free_memory_bytes();

// Zeroed; throws Error that says how many bytes were asked for and how many are free.
std::shared_ptr<std::byte> allocate(int device, int64_t bytes);
// Host memory that the device copies from and to by itself.
std::shared_ptr<std::byte> allocate_pinned(int64_t bytes);

struct DestroyStream {
  void operator()(cudaStream_t stream) const { cudaStreamDestroy(stream); }
};
using Stream = std::unique_ptr<std::remove_pointer_t<cudaStream_t>, DestroyStream>;
Stream make_stream();

struct DestroyEvent {
  void operator()(cudaEvent_t event) const { cudaEventDestroy(event); }
};
using Event = std::unique_ptr<std::remove_pointer_t<cudaEvent_t>, DestroyEvent>;
Event make_event(bool timing);

struct DestroyGraph {
  void operator()(cudaGraphExec_t graph) const { cudaGraphExecDestroy(graph); }
};
using GraphExec = std::unique_ptr<std::remove_pointer_t<cudaGraphExec_t>, DestroyGraph>;

}  // namespace genesis::cuda
