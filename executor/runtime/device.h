// The interface of a device, the CPU or one GPU, where a session keeps its memory and runs its plans. Sessions use devices only
// through it; cpu_device.cpp and cuda_device.cpp implement it.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "executor/runtime/downloads.h"
#include "executor/runtime/peaks.h"
#include "executor/runtime/runner.h"
#include "schema/core/tensor.h"
#include "schema/graph/target.h"

namespace genesis {

// Zeroed memory of a device, freed with its last pointer.
using DeviceMemory = std::shared_ptr<std::byte>;

// Device memory that this process holds, and the most it has held; 0 on the CPU, where it is not counted.
struct DeviceUse {
  int64_t bytes = 0, peak_bytes = 0;
};

class Device {
 public:
  virtual ~Device() = default;
  virtual const Target& target() const = 0;

  // Returns true if kernels can read the host's memory, so that weights can stay in the mapped file.
  virtual bool reads_host_memory() const = 0;
  // Returns true if a run continues after Runner::run() has returned.
  virtual bool is_asynchronous() const { return false; }
  // Returns the bytes that can still be allocated and used; empty if unknown.
  virtual std::optional<int64_t> free_bytes() const = 0;
  virtual DeviceUse use() const = 0;
  // Measures the device; takes a moment and memory of its own.
  virtual DevicePeaks measure_peaks() = 0;
  // Throws Error that says how many bytes were requested.
  virtual DeviceMemory allocate(int64_t bytes) = 0;
  // These copy between host and device, in order with the started runs. The host's memory may be reused on return.
  virtual void upload(std::byte* to, const std::byte* from, int64_t bytes) = 0;
  virtual void download(std::byte* to, const std::byte* from, int64_t bytes) = 0;
  virtual void clear(std::byte* to, int64_t bytes) = 0;
  // Copies within the device's memory, in order with the started runs.
  virtual void copy(std::byte* to, const std::byte* from, int64_t bytes) { upload(to, from, bytes); }
  // Waits for the started runs and copies.
  virtual void wait() {}
  // Lets later runs and copies wait for what other libraries have given CUDA's default stream so far.
  virtual void wait_for_default_stream() {}
  // Returns the number of the GPU; -1: it is none.
  virtual int gpu() const { return -1; }
  // Makes an object that copies device memory while runs go on. The device must outlive it.
  virtual std::unique_ptr<Downloads> make_downloads() = 0;

  // Returns the stream in whose order copies and runs happen: a cudaStream_t of a GPU, null on the CPU.
  virtual void* stream() { return nullptr; }

  // Runs `body` in a context where the device's kernels can be prepared and started.
  virtual void enter(const std::function<void()>& body) = 0;
  // `plan` must outlive the runner. Throws Error that names the node if a step has no kernel.
  virtual std::unique_ptr<Runner> make_runner(const Plan& plan, const RunnerOptions& options) = 0;
};

// Returns a copy on the host.
Tensor read_tensor(Device& device, const TensorType& type, const std::byte* data);

// A kind of device that a name such as "cpu" or "cuda:1" refers to: a row of the table in device.cpp.
struct DeviceKind {
  std::string_view name;       // without a number
  bool is_numbered = false;    // there may be several: NAME is the first, NAME:N is number N
  bool takes_threads = false;  // it uses SessionOptions::threads
  std::shared_ptr<Device> (*open)(int index, int threads) = nullptr;
  Target (*target)(int index) = nullptr;
  // Returns the names of the implementations that run several consecutive steps in one launch, best first. Null: there are none.
  std::vector<std::string_view> (*joining_implementations)() = nullptr;
  // Returns for each step the one of these implementations that joins it with its neighbors (an empty name if none does), and why
  // others decline it.
  std::vector<KernelChoice> (*choose_joined)(const Plan& plan, const KernelNames& disabled) = nullptr;
};
// Returns the row for the name before the colon; null if there is none.
const DeviceKind* find_device_kind(std::string_view name);
// Returns DeviceKind::joining_implementations of all rows.
std::vector<std::string_view> all_joining_implementations();

// Returns the device that "auto" stands for: the first kind of GPU that can be used, else "cpu". Other names are returned
// unchanged. Throws Error for a name that no device can have.
std::string resolve_device(const std::string& name);

// `name` is "cpu", "cuda", "cuda:N" or "auto"; `threads` is for the CPU, 0 for all cores. Throws Error that lists the existing
// devices.
std::shared_ptr<Device> open_device(const std::string& name, int threads);
// Returns what passes need to know about a device; the device itself need not exist.
Target target_of(const std::string& name);

// Functions that the rows of the table refer to, each defined beside its device.
inline constexpr int kMaxThreads = 1024;  // the most threads that a CPU device may be asked for
std::shared_ptr<Device> open_cpu_device(int threads);
std::shared_ptr<Device> open_cuda_device(int index);
Target cuda_target(int index);
std::vector<std::string_view> cuda_joining_implementations();
std::vector<KernelChoice> choose_cuda_joined(const Plan& plan, const KernelNames& disabled);

}  // namespace genesis
