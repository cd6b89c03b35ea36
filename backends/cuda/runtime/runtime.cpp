#include "backends/cuda/runtime/runtime.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <mutex>
#include <set>
#include <vector>

#include "backends/cuda/runtime/allocated.h"
#include "backends/cuda/runtime/by_device.h"
#include "schema/core/error.h"
#include "schema/messages/human_bytes.h"

namespace genesis::cuda {
namespace {

constexpr int kOldestMajor = 8;

std::atomic<int64_t> made_count{0}, wait_count{0}, launch_count{0};

int count_devices(int wanted) {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status == cudaErrorInsufficientDriver || status == cudaErrorNoDevice || count == 0)
    fail("no device 'cuda:{}': {}; install the NVIDIA driver, or run with --device cpu", wanted,
         status == cudaErrorInsufficientDriver
             ? "there is no NVIDIA driver, or it is older than this build's CUDA"
             : "this machine has no NVIDIA GPU");
  check(status, "counting devices");
  return count;
}

Chip read_chip(int device) {
  cudaDeviceProp properties;
  check(cudaGetDeviceProperties(&properties, device), "reading a device's properties");
  return {.name = properties.name,
          .major = properties.major,
          .minor = properties.minor,
          .multiprocessors = properties.multiProcessorCount,
          .memory_bytes = static_cast<int64_t>(properties.totalGlobalMem),
          .l2_bytes = properties.l2CacheSize};
}

}  // namespace

namespace {

std::mutex loss_mutex;
std::string loss;

std::string after_loss() {
  if (!is_lost()) return "";
  const std::lock_guard lock(loss_mutex);
  return "; this process can use the GPU no more, another one can" +
         (loss.empty() ? "" : ", since an earlier run failed: " + loss);
}

}  // namespace

bool is_lost() {
  size_t free = 0, total = 0;
  if (cudaMemGetInfo(&free, &total) == cudaSuccess) return false;
  cudaGetLastError();
  return true;
}

void remember_loss(const std::string& what) {
  const std::lock_guard lock(loss_mutex);
  if (loss.empty()) loss = what;
}

void check(cudaError_t status, const char* doing) {
  if (status == cudaSuccess) return;
  cudaGetLastError();  // clears the error if it can be cleared, so that the next call starts clean
  fail("CUDA failed while {}: {} ({}){}", doing, cudaGetErrorString(status), cudaGetErrorName(status),
       after_loss());
}

Chip open_chip(int device) {
  const int count = count_devices(device);
  if (device >= count)
    fail("no device 'cuda:{}': this machine has {}, cuda:0{}; or run with --device cpu", device,
         count == 1 ? "one GPU" : fmt::format("{} GPUs", count),
         count == 1 ? "" : fmt::format(" to cuda:{}", count - 1));
  check(cudaSetDevice(device), "choosing a device");
  Chip chip = read_chip(device);
  if (chip.major < kOldestMajor)
    fail("device 'cuda:{}' is a {} of compute capability {}.{}: Genesis needs 8.0 (Ampere) or later", device,
         chip.name, chip.major, chip.minor);
  return chip;
}

int current_device() {
  int device = 0;
  check(cudaGetDevice(&device), "asking for the current device");
  return device;
}

const Chip& current_chip() {
  static ByDevice<Chip> chips(read_chip);
  return chips[current_device()];
}

int64_t free_memory_bytes() {
  size_t free = 0, total = 0;
  check(cudaMemGetInfo(&free, &total), "asking for free memory");
  return static_cast<int64_t>(free);
}

namespace {

struct Count {
  std::atomic<int64_t> bytes{0}, peak{0};
};
std::array<Count, 64> counts;  // by device

}  // namespace

void count_allocation(int device, int64_t bytes) {
  Count& count = counts.at(static_cast<size_t>(device));
  const int64_t now = count.bytes += bytes;
  int64_t peak = count.peak;
  while (now > peak && !count.peak.compare_exchange_weak(peak, now)) {
  }
}

Allocated allocated(int device) {
  const Count& count = counts.at(static_cast<size_t>(device));
  return {count.bytes, count.peak};
}

namespace {

// Returns null if the device has too little memory.
std::shared_ptr<std::byte> device_memory(int device, int64_t bytes) {
  check(cudaSetDevice(device), "choosing a device");
  void* memory = nullptr;
  const auto size = static_cast<size_t>(std::max<int64_t>(bytes, 1));
  const cudaError_t status = cudaMalloc(&memory, size);
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    return nullptr;
  }
  check(status, "allocating memory");
  ++made_count;
  count_allocation(device, static_cast<int64_t>(size));
  return {static_cast<std::byte*>(memory), [device, size](std::byte* p) {
            cudaSetDevice(device);
            cudaFree(p);
            count_allocation(device, -static_cast<int64_t>(size));
          }};
}

}  // namespace

std::shared_ptr<std::byte> try_allocate(int device, int64_t bytes) { return device_memory(device, bytes); }

std::shared_ptr<std::byte> allocate(int device, int64_t bytes) {
  auto memory = device_memory(device, bytes);
  if (!memory)
    fail("cuda:{} has too little memory: {} were asked for, {} are free", device,
         human_bytes(static_cast<double>(bytes)), human_bytes(static_cast<double>(free_memory_bytes())));
  check(cudaMemset(memory.get(), 0, static_cast<size_t>(std::max<int64_t>(bytes, 1))), "clearing memory");
  wait_for(static_cast<cudaStream_t>(nullptr), "clearing memory");  // other streams do not wait for this one
  return memory;
}

std::shared_ptr<std::byte> allocate_pinned(int64_t bytes) {
  void* memory = nullptr;
  check(cudaMallocHost(&memory, static_cast<size_t>(std::max<int64_t>(bytes, 1))),
        "allocating pinned memory");
  ++made_count;
  return {static_cast<std::byte*>(memory), [](std::byte* p) { cudaFreeHost(p); }};
}

namespace {

// The chunks of a block of host memory that are pinned.
struct PinnedChunks {
  std::vector<std::byte*> begins;
  ~PinnedChunks() {
    for (std::byte* begin : begins) cudaHostUnregister(begin);
  }
};

}  // namespace

std::shared_ptr<const void> try_pin(std::byte* memory, int64_t bytes) {
  auto chunks = std::make_shared<PinnedChunks>();
  for (int64_t at = 0; at < bytes; at += kPinnedChunkBytes) {
    const int64_t size = std::min(kPinnedChunkBytes, bytes - at);
    if (cudaHostRegister(memory + at, static_cast<size_t>(size), cudaHostRegisterDefault) != cudaSuccess) {
      cudaGetLastError();
      return nullptr;
    }
    ++made_count;
    chunks->begins.push_back(memory + at);
  }
  return chunks;
}

Stream make_stream(StreamPriority priority) {
  cudaStream_t stream = nullptr;
  int least = 0, greatest = 0;
  check(cudaDeviceGetStreamPriorityRange(&least, &greatest), "asking for priorities of streams");
  check(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking,
                                     priority == StreamPriority::kFirst ? greatest : least),
        "making a stream");
  ++made_count;
  return Stream(stream);
}

Event make_event(bool timing) {
  cudaEvent_t event = nullptr;
  check(cudaEventCreateWithFlags(&event, timing ? cudaEventDefault : cudaEventDisableTiming),
        "making an event");
  ++made_count;
  return Event(event);
}

GraphExec make_graph(cudaGraph_t captured) {
  cudaGraphExec_t graph = nullptr;
  const cudaError_t status = cudaGraphInstantiate(&graph, captured, 0);
  cudaGraphDestroy(captured);
  check(status, "making a graph");
  ++made_count;
  return GraphExec(graph);
}

namespace {

using Clock = std::chrono::steady_clock;
std::mutex waits_mutex;
std::multiset<Clock::time_point>& waits_begun =
    *new std::multiset<Clock::time_point>;  // waits in progress; never destroyed

template <class Synchronize>
cudaError_t waited(Synchronize&& synchronize) {
  ++wait_count;
  std::multiset<Clock::time_point>::iterator mine;
  {
    const std::lock_guard lock(waits_mutex);
    mine = waits_begun.insert(Clock::now());
  }
  const cudaError_t status = synchronize();
  const std::lock_guard lock(waits_mutex);
  waits_begun.erase(mine);
  return status;
}

bool is_well(cudaError_t status) {
  if (status != cudaSuccess) cudaGetLastError();
  return status == cudaSuccess;
}

}  // namespace

void wait_for(cudaStream_t stream, const char* doing) {
  check(waited([&] { return cudaStreamSynchronize(stream); }), doing);
}
void wait_for(cudaEvent_t event, const char* doing) {
  check(waited([&] { return cudaEventSynchronize(event); }), doing);
}
bool try_wait_for(cudaStream_t stream) {
  return is_well(waited([&] { return cudaStreamSynchronize(stream); }));
}
bool try_wait_for(cudaEvent_t event) {
  return is_well(waited([&] { return cudaEventSynchronize(event); }));
}

double seconds_waited() {
  const std::lock_guard lock(waits_mutex);
  return waits_begun.empty() ? 0 : std::chrono::duration<double>(Clock::now() - *waits_begun.begin()).count();
}

void launch(cudaGraphExec_t graph, cudaStream_t stream) {
  ++launch_count;
  check(cudaGraphLaunch(graph, stream), "starting a captured entry point");
}

Counters counters() { return {made_count, wait_count, launch_count}; }

}  // namespace genesis::cuda
