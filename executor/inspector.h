// An Inspector tells what a Session does on its device: plans, kernels, times, values, and memory. It looks at the session that
// it is given, whose runs and states it shares, and keeps nothing itself.
//
//     Inspector inspector(session);
//     for (const std::string& kernel : inspector.kernels("forward", inputs)) puts(kernel.c_str());
//
// Its calls count as calls of the session: one at a time, in one thread, and none that runs while a started run waits for its
// result(). They throw Error as Session::run() does.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "executor/runtime/peaks.h"
#include "executor/runtime/runner.h"
#include "executor/session.h"

namespace genesis {

class Device;

// An output in the memory of a session's device.
struct DeviceOutput {
  std::string name;
  TensorType type;
  std::shared_ptr<std::byte> memory;  // null if it has no elements
};

// Blocks of a device's memory for outputs. A block is used again when nobody else has it any more.
class OutputBlocks {
 public:
  std::shared_ptr<std::byte> take(Device& device, int64_t bytes);

 private:
  static constexpr size_t kMaxBlocks = 32;
  struct Block {
    std::shared_ptr<std::byte> memory;
    int64_t bytes;
  };
  std::vector<Block> blocks_;
};

struct MemoryStatistics {
  // The arena that all entry points share, and one for each kept plan that has prepared values of its states, such as weights in
  // the order in which kernels of a CPU read them.
  int64_t arena_bytes = 0;
  int64_t state_bytes = 0;   // states with memory of their own
  int64_t mapped_bytes = 0;  // states and constants that are read directly from the model
  // GPU memory that this process holds, and the most it has held.
  int64_t device_bytes = 0, device_peak_bytes = 0;
  int64_t plans = 0;            // number of kept plans, bounded by SessionOptions::max_plans
  int64_t optimizer_bytes = 0;  // the optimizer's share of state_bytes
};

class Inspector {
 public:
  // The session must outlive the inspector.
  explicit Inspector(Session& session) : session_(session) {}

  // Returns the name of the kernel that runs each step of plan(entry, inputs), as `--disable kernel:NAME` accepts it. On a GPU it
  // can be "megakernel", one kernel that runs many steps. Compiles without running.
  std::vector<std::string> kernels(const std::string& entry, const NamedTensors& inputs);
  MemoryStatistics memory() const;

  // The calls below run the entry point, and like any run they change its states.

  // Returns the time of each step of plan(entry, inputs). The steps run one after the other.
  std::vector<StepTiming> profile(const std::string& entry, const NamedTensors& inputs);
  // Runs normally and records when each thread or stream executed which step. Recording costs a little. On a GPU it also adds
  // launch overhead: the steps run on their streams one launch at a time instead of as one graph.
  Timeline timeline(const std::string& entry, const NamedTensors& inputs);
  // Returns the mean time of back-to-back runs by the device's own clock, without uploads, downloads and the host.
  double seconds_per_run(const std::string& entry, const NamedTensors& inputs, int repeats);
  // Passes every step's data to the observer, e.g. to compare two implementations. The observer may not call the session.
  void observe(const std::string& entry, const NamedTensors& inputs, const StepObserver& observer);
  // Runs node by node up to the first node that produces a NaN or an infinity, and returns a message that names it; empty if none
  // does. States are not all updated if it stops early.
  std::string explain_nonfinite(const std::string& entry, const NamedTensors& inputs);

  // Runs the entry point and leaves the outputs in the device's memory: copies, which stay valid. They are complete on return. A
  // block that its last holder gave back is written behind what CUDA's default stream was given by then.
  std::vector<DeviceOutput> run_on_device(const std::string& entry, const NamedTensors& inputs,
                                          OutputBlocks& blocks);

  // Measures the peak throughput and bandwidth of the device now.
  DevicePeaks measure_peaks();

 private:
  void execute(const std::string& entry, const NamedTensors& inputs, const RunOptions& options);

  Session& session_;
};

}  // namespace genesis
