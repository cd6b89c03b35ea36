// A Device is where a session keeps its memory and runs its plans: the CPU, or one GPU. Session knows nothing
// else of either. cpu_device.cpp and cuda_device.cpp implement it.
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

// Zeroed memory of a device, given back with the pointer.
using DeviceMemory = std::shared_ptr<std::byte>;

// What this process holds of a device's memory, and held at most; 0 on the CPU, whose memory nobody counts.
struct DeviceUse {
  int64_t bytes = 0, peak_bytes = 0;
};

class Device {
 public:
  virtual ~Device() = default;
  virtual const Target& target() const = 0;

  // Whether kernels read the host's memory, so that weights can stay where their file is mapped.
  virtual bool reads_host_memory() const = 0;
  // Whether a run goes on after Runner::run() has returned.
  virtual bool runs_beside_host() const { return false; }
  // Bytes that can still be allocated and used; empty where nobody knows.
  virtual std::optional<int64_t> free_bytes() const = 0;
  virtual DeviceUse use() const = 0;
  // Takes a moment, and memory of its own.
  virtual DevicePeaks measure_peaks() = 0;
  // Throws Error that says how many bytes were asked for.
  virtual DeviceMemory allocate(int64_t bytes) = 0;
  // Between host and device, in the order of the runs started; the host's side may be reused on return.
  virtual void upload(std::byte* to, const std::byte* from, int64_t bytes) = 0;
  virtual void download(std::byte* to, const std::byte* from, int64_t bytes) = 0;
  virtual void clear(std::byte* to, int64_t bytes) = 0;
  // For copies that are made beside runs. The device must outlive them.
  virtual std::unique_ptr<Downloads> make_downloads() = 0;

  // In whose order all of this and its runs are done: a cudaStream_t of a GPU, null on the CPU.
  virtual void* stream() { return nullptr; }

  // Runs `body` where the device's kernels may be prepared and started.
  virtual void enter(const std::function<void()>& body) = 0;
  // `plan` must outlive the runner. Throws Error when a step has no kernel, naming its node.
  virtual std::unique_ptr<Runner> make_runner(const Plan& plan, const RunnerOptions& options) = 0;
};

// A copy on the host.
Tensor read_tensor(Device& device, const TensorType& type, const std::byte* data);

// What a name like "cpu" or "cuda:1" can stand for: a row of the table in device.cpp.
struct DeviceKind {
  std::string_view name;       // without a number
  bool is_numbered = false;    // there may be several: NAME is the first, NAME:N the one with number N
  bool takes_threads = false;  // SessionOptions::threads says something to it
  std::shared_ptr<Device> (*open)(int index, int threads) = nullptr;
  Target (*target)(int index) = nullptr;
  // Names of its ways that run several consecutive steps in one launch, best first. Null: there are none.
  std::vector<std::string_view> (*joining_ways)() = nullptr;
  // By step, the one of them that runs it together with its neighbours: without a name where none does, and why not.
  std::vector<KernelChoice> (*choose_joined)(const Plan& plan, const KernelNames& disabled) = nullptr;
};
// The row whose name stands before the colon; null when there is none.
const DeviceKind* find_device_kind(std::string_view name);
// DeviceKind::joining_ways of all rows.
std::vector<std::string_view> all_joining_ways();

// What "auto" stands for: the first kind of GPU that can be used, else "cpu". Any other name stays as it is. Throws
// Error for a name that no device can have.
std::string resolve_device(const std::string& name);

// `name` is "cpu", "cuda", "cuda:N" or "auto"; `threads` is for the CPU, 0 for all cores. Throws Error that lists the
// devices there are.
std::shared_ptr<Device> open_device(const std::string& name, int threads);
// What passes need to know of a device by its name; the device need not be there.
Target target_of(const std::string& name);

// What the rows of the table call, each beside its device.
std::shared_ptr<Device> open_cpu_device(int threads);
std::shared_ptr<Device> open_cuda_device(int index);
Target cuda_target(int index);
std::vector<std::string_view> cuda_joining_ways();
std::vector<KernelChoice> choose_cuda_joined(const Plan& plan, const KernelNames& disabled);

}  // namespace genesis
