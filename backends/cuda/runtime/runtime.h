// The CUDA runtime as the rest of the house uses it: every call checked, every resource owned. Used by
// executor/cuda/cuda_*; kernels see only launch.h.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace genesis::cuda {

// Throws Error with CUDA's name of what went wrong and what was being done.
void check(cudaError_t status, const char* doing);

// Whether a kernel has failed: whatever the process asks of the GPU from then on, fails.
bool is_lost();
// What failed; later errors repeat it.
void remember_loss(const std::string& what);

struct Chip {
  std::string name;
  int major = 0, minor = 0;  // compute capability
  int multiprocessors = 0;
  int64_t memory_bytes = 0, l2_bytes = 0;
};

// Throws Error when there is no driver, no such device, or a chip older than 8.0 (Ampere).
Chip open_chip(int device);
// Of this thread.
int current_device();
// Of the device current in this thread.
const Chip& current_chip();
int64_t free_memory_bytes();

// Zeroed; throws Error that says how many bytes were asked for and how many are free.
std::shared_ptr<std::byte> allocate(int device, int64_t bytes);
// Not zeroed; null where memory is short.
std::shared_ptr<std::byte> try_allocate(int device, int64_t bytes);
// Host memory that the device copies from and to by itself.
std::shared_ptr<std::byte> allocate_pinned(int64_t bytes);

// Memory of the host that is there already made such, as long as the result lives; null where the system does not
// allow that much. In pieces from its beginning, which no copy may go beyond: pinning holds up whatever else the
// process asks of the GPU, so gigabytes are pinned a piece at a time beside runs.
inline constexpr int64_t kPinnedPieceBytes = 256 << 20;
std::shared_ptr<const void> try_pin(std::byte* memory, int64_t bytes);

struct DestroyStream {
  void operator()(cudaStream_t stream) const { cudaStreamDestroy(stream); }
};
using Stream = std::unique_ptr<std::remove_pointer_t<cudaStream_t>, DestroyStream>;
// Blocks of kernels on a stream that comes first take the multiprocessors that become free, also in a captured graph.
enum class StreamPriority { kUsual, kFirst };
Stream make_stream(StreamPriority priority = StreamPriority::kUsual);

struct DestroyEvent {
  void operator()(cudaEvent_t event) const { cudaEventDestroy(event); }
};
using Event = std::unique_ptr<std::remove_pointer_t<cudaEvent_t>, DestroyEvent>;
Event make_event(bool timing);

struct DestroyGraph {
  void operator()(cudaGraphExec_t graph) const { cudaGraphExecDestroy(graph); }
};
using GraphExec = std::unique_ptr<std::remove_pointer_t<cudaGraphExec_t>, DestroyGraph>;
GraphExec make_graph(cudaGraph_t captured);  // which it destroys

// Until the device has done what was started: the only ways in which the host waits for it.
void wait_for(cudaStream_t stream, const char* doing);
void wait_for(cudaEvent_t event, const char* doing);
bool try_wait_for(cudaStream_t stream);  // false: what was started failed
bool try_wait_for(cudaEvent_t event);
// How long the longest of the waits that go on now has lasted; 0: nobody waits. Whoever watches over ranks asks.
double seconds_waited();
void launch(cudaGraphExec_t graph, cudaStream_t stream);

// What everything above was asked for, by all threads of the process: a run in its steady state makes nothing
// and waits once.
struct Counters {
  int64_t made = 0;   // device and pinned memory, streams, events, graphs
  int64_t waits = 0;  // of the host for the device
  int64_t graphs_launched = 0;
};
Counters counters();

}  // namespace genesis::cuda
