// The CUDA runtime with every call checked and every resource owned.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace genesis::cuda {

// Throws Error with CUDA's name of the error and with `doing`.
void check(cudaError_t status, const char* doing);

// Returns whether an earlier failure has made the GPU unusable for this process: every later call fails.
bool is_lost();
// Stores the message of the run that failed; later errors repeat it.
void remember_loss(const std::string& what);

struct Chip {
  std::string name;
  int major = 0, minor = 0;  // compute capability
  int multiprocessors = 0;
  int64_t memory_bytes = 0, l2_bytes = 0;
};

// Throws Error if there is no driver or no such device, or if the chip is older than 8.0 (Ampere).
Chip open_chip(int device);
// The device of this thread.
int current_device();
// The chip of this thread's current device.
const Chip& current_chip();
int64_t free_memory_bytes();

// Allocates zeroed device memory; throws Error with the bytes asked for and the bytes free.
std::shared_ptr<std::byte> allocate(int device, int64_t bytes);
// Allocates device memory without zeroing it; returns null if the device has too little.
std::shared_ptr<std::byte> try_allocate(int device, int64_t bytes);
// Allocates pinned host memory, which the device copies from and to asynchronously.
std::shared_ptr<std::byte> allocate_pinned(int64_t bytes);

// Pins existing host memory until the result is destroyed; returns null if the system does not allow that much. The
// memory is pinned in chunks of kPinnedChunkBytes from its beginning, and no copy may cross a chunk's border. Pinning
// blocks everything else that the process asks of the GPU, so gigabytes are pinned a chunk at a time while runs go
// on.
inline constexpr int64_t kPinnedChunkBytes = 256 << 20;
std::shared_ptr<const void> try_pin(std::byte* memory, int64_t bytes);

struct DestroyStream {
  void operator()(cudaStream_t stream) const { cudaStreamDestroy(stream); }
};
using Stream = std::unique_ptr<std::remove_pointer_t<cudaStream_t>, DestroyStream>;
// Thread blocks on a stream with priority kFirst get free multiprocessors first, also in a captured graph.
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
GraphExec make_graph(cudaGraph_t captured);  // destroys `captured`

// Wait until the device has done the work issued so far: no other function makes the host wait for the device.
void wait_for(cudaStream_t stream, const char* doing);
void wait_for(cudaEvent_t event, const char* doing);
bool try_wait_for(cudaStream_t stream);  // false if that work failed
bool try_wait_for(cudaEvent_t event);
// Returns how long the longest wait in progress has lasted, or 0 if no thread waits. The watchdog of ranks polls it.
double seconds_waited();
void launch(cudaGraphExec_t graph, cudaStream_t stream);

// Counts calls of the functions above by all threads of the process: a run in its steady state makes no resources and
// waits once.
struct Counters {
  int64_t made = 0;   // device and pinned memory, streams, events, graphs
  int64_t waits = 0;  // times the host waited for the device
  int64_t graphs_launched = 0;
};
Counters counters();

}  // namespace genesis::cuda
