// A Runner executes one Plan on one device. Loading resolves everything once; run() is a loop.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backends/kernel.h"
#include "executor/runtime/nonfinite.h"
#include "schema/core/error.h"
#include "schema/core/tensor.h"
#include "schema/graph/plan.h"

namespace genesis {

// The addresses of a plan's memory spaces. Addresses may change between runs, sizes may not.
struct PlanMemory {
  std::byte* arena = nullptr;
  std::vector<std::byte*> states;     // by state index; null for states the plan does not touch
  std::vector<std::byte*> constants;  // by tensor index; never written
  std::vector<std::byte*> inputs;  // by Plan::inputs; never written; gpu_of() tells those in a GPU's memory

  std::byte* resolve(const BufferRef& ref) const;
};

// The start and the end of one step in a profiled run.
struct StepTiming {
  double start_us = 0, end_us = 0;  // since the run began
};

// Records when the threads of a CPU or the streams of a GPU worked on which step, in a normal run, where steps overlap.
struct Timeline {
  struct Span {
    int32_t step;  // index in the plan; several spans if threads share a step, or leave it and come back
    double start_us, end_us;  // since the run began
  };
  struct Track {
    std::string name;         // e.g. "thread 0", "stream of exchanges"
    std::vector<Span> spans;  // ordered by time, without overlap
  };
  std::vector<Track> tracks;
};

// Called after each step with its inputs and outputs; in-place results have overwritten their inputs by then.
using StepObserver = std::function<void(const Step& step, std::span<const TensorView> inputs,
                                        std::span<const TensorView> outputs)>;

// The options of a runner.
struct RunnerOptions {
  bool side_stream = true;                        // off: a GPU runs one step after the other
  bool peer_memory = true;                        // off: the GPUs of a host exchange data only over NCCL
  KernelNames disabled_kernels;                   // the same as when the plan was made; includes joining ones
  bool leaves_outputs = false;  // on: no run copies outputs to the host, as RunOptions::leaves_outputs says
  std::shared_ptr<Collectives> collectives = {};  // to exchange data with the other ranks; null: one rank
};

struct RunOptions {
  bool find_nonfinite = false;  // stop with an Error at the first NaN, or infinity made from finite numbers
  std::vector<StepTiming>* timings =
      nullptr;                   // filled by step if not null; steps then run one after the other
  Timeline* timeline = nullptr;  // filled if not null, unless timings or an observer are given
  StepObserver observer;
  bool leaves_outputs =
      false;  // on: the outputs are read from the plan's memory, and output() has none of them
};

// Throws the Error of a step that reported a fault.
[[noreturn]] void fail_on_data(const Step& step, const Fault& fault);
// Throws Error with the failure that the ranks report, if an exchange of the run failed. `exchange`: the step that failed; null:
// unknown.
void check_ranks(const Collectives* collectives, const Plan& plan, const Step* exchange = nullptr);
// Throws the Error of the first step with a value that is not finite. `inputs` and `outputs` are those of the step, on the host.
[[noreturn]] void fail_on_nonfinite(const Plan& plan, const Step& step, size_t output, const Nonfinite& found,
                                    bool inputs_were_finite, std::span<const TensorView> inputs,
                                    std::span<const TensorView> outputs);

// The Error that ends a search for values that are not finite. It holds the tensors of the step.
class NonfiniteError : public Error {
 public:
  // Larger tensors of the step are omitted, and so are inputs that the step has overwritten.
  static constexpr int64_t kMaxBytes = 256 << 20;

  struct Found {
    std::string entry;  // the entry point that ran, with these sizes
    Bindings sizes;
    std::string node, author, op;  // `node` is its name after optimization
    size_t output = 0;             // index of the output, and of its first element that is not finite
    int64_t element = 0;
    std::vector<std::optional<Tensor>> inputs, outputs;  // empty: omitted
  };

  NonfiniteError(std::string message, Found found) : Error(std::move(message)), found_(std::move(found)) {}
  const Found& found() const { return found_; }

 private:
  Found found_;
};

// Returns true if an infinity in the step's outputs counts as an error in the search for the first value that is not finite: the
// step made it from finite numbers. Infinities that the model itself contains (a mask's -inf) or that are passed on do not count.
bool makes_infinities(const Step& step, bool inputs_were_finite);

class Runner {
 public:
  virtual ~Runner() = default;
  // Sets the addresses of the plan's buffers. Must be called before the first run() and whenever an address has changed; if only
  // the addresses of inputs have changed, bind_inputs() is enough.
  virtual void bind(const PlanMemory& memory) = 0;
  virtual void bind_inputs(const PlanMemory& memory) = 0;
  // Starts the run, which may continue after the return. The inputs' memory may be reused on return. If the runner
  // keeps_outputs(), a second run may be started before the host has waited for the first.
  virtual void run(const RunOptions& options) = 0;
  // Announces during a run the inputs of the next run, as bind_inputs() takes them; they must not change. Does nothing if kernels
  // read the host's memory.
  virtual void stage(const std::vector<std::byte*>& inputs) { static_cast<void>(inputs); }
  // Waits for the oldest run that has not been waited for. Throws Error that names the node if data could not be used; states may
  // then be partly updated.
  virtual void wait() = 0;
  // Returns true if output() stays valid while another run goes on.
  virtual bool keeps_outputs() const { return false; }
  // Returns an output, by Plan::outputs, of the run that wait() waited for, if the run copied it to the host; valid until the
  // next run(). Null: read it from the plan's memory.
  virtual const std::byte* output(size_t index) const {
    static_cast<void>(index);
    return nullptr;
  }
  // Replaces the names in `kernels` (by step, the kernel that would run it alone) for steps that the runner runs together.
  virtual void rename_kernels(std::vector<std::string>& kernels) const { static_cast<void>(kernels); }
  // Returns the mean time of `repeats` runs without the host in between, by the device's own clock.
  virtual double seconds_per_run(int repeats) = 0;
};

}  // namespace genesis
