// Queues the runs of compiled entry points that were started and whose results have not been taken yet: at most two, in order.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "executor/named_tensors.h"
#include "executor/runtime/device.h"
#include "executor/runtime/device_tensors.h"
#include "schema/graph/model.h"

namespace genesis {

// An entry point compiled for one set of sizes, with its runner and memory.
struct Compiled {
  std::unique_ptr<Model> work;  // owns the constants that folding made
  Plan plan;
  RunnerOptions runner_options;
  std::unique_ptr<Runner> runner;
  PlanMemory memory;
  std::vector<DeviceMemory> constants;  // device copies, if the device cannot read host memory
  NamedTensors staged;                  // kept alive: the runner knows inputs by address
  int64_t generation = -1;              // the session's generation when the runner was last bound
  // Computes values of the states alone, which are these tensors of `work`; null: there are none. The values stay where this plan
  // computes them: in its own arena.
  std::shared_ptr<Compiled> prepared;
  std::vector<int32_t> prepared_tensors;
  bool keeps_arena = false;  // has `arena` instead of the memory that entry points share
  DeviceMemory arena;
  int64_t prepared_at = -1;  // the version of the states for which they were computed

  // Copies a value of the last run to the host. Inputs are the caller's memory on every device, mostly the host's.
  Tensor read(const PlanPort& port, Device& device) const {
    const std::byte* data = memory.resolve(port.buffer);
    if (port.buffer.space == Space::kInput && !gpu_of(data)) return Tensor::copy_of(port.type, data);
    return read_tensor(device, port.type, data);
  }

  // Waits for the oldest run that has not been waited for, and returns its outputs.
  NamedTensors results(Device& device) const {
    device.enter([&] { runner->wait(); });
    NamedTensors results;
    for (size_t i = 0; i < plan.outputs.size(); ++i) {
      const PlanPort& port = plan.outputs[i];
      const std::byte* here = runner->output(i);
      results.emplace(port.name, here ? Tensor::copy_of(port.type, here) : read(port, device));
    }
    results.complete("entry point '" + plan.entry + "' has no output");
    return results;
  }
};
using CompiledPtr = std::shared_ptr<Compiled>;  // a holder keeps the plan from being evicted

class StartedRuns {
 public:
  explicit StartedRuns(Device& device) : device_(device) {}
  ~StartedRuns() {
    for (const Run& run : runs_) try {
        if (!run.results) device_.enter([&] { run.compiled->runner->wait(); });
      } catch (const Error&) {  // nobody asked for the result
      }
  }
  StartedRuns(const StartedRuns&) = delete;
  StartedRuns& operator=(const StartedRuns&) = delete;

  bool empty() const { return runs_.empty(); }
  size_t size() const { return runs_.size(); }
  void check_empty() const {
    if (!empty())
      fail("a run of entry point '{}' has been started: take its result() first",
           runs_.front().compiled->plan.entry);
  }

  // Prepares for starting another run. The previous run may stay under way if the new one does not change anything it uses
  // (`is_undisturbed`) and does not overwrite its outputs. Otherwise its results are taken now.
  void make_room(bool is_undisturbed) {
    if (empty()) return;
    if (runs_.size() == kMaxRuns) check_empty();
    if (runs_.front().results || (is_undisturbed && runs_.front().compiled->runner->keeps_outputs())) return;
    Run run = std::move(runs_.front());  // removed from the queue first: a run that fails is over
    runs_.pop_front();
    run.results = run.compiled->results(device_);
    runs_.push_front(std::move(run));
  }
  void add(const CompiledPtr& compiled, const NamedTensors& inputs) {
    runs_.push_back({compiled, inputs, {}});
  }

  // Waits for the oldest run and returns its results.
  NamedTensors take_results() {
    if (empty()) fail("there is no result: start() a run first");
    Run run = std::move(runs_.front());
    runs_.pop_front();
    return run.results ? std::move(*run.results) : run.compiled->results(device_);
  }

 private:
  static constexpr size_t kMaxRuns = 2;
  struct Run {
    CompiledPtr compiled;
    NamedTensors inputs;                  // kept alive, since an output may be one of them
    std::optional<NamedTensors> results;  // if they were already taken from the runner
  };

  Device& device_;
  std::deque<Run> runs_;
};

}  // namespace genesis
