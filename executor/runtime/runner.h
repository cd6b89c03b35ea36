// A Runner executes one Plan on one device. Loading resolves everything once; run() is a loop. Used by
// Session.
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

// Where a plan's spaces lie in memory. Pointers may change between runs; sizes may not.
struct PlanMemory {
  std::byte* arena = nullptr;
  std::vector<std::byte*> states;     // by state index; null for states the plan does not touch
  std::vector<std::byte*> constants;  // by tensor index; never written
  std::vector<std::byte*> inputs;     // by Plan::inputs; never written

  std::byte* resolve(const BufferRef& ref) const;
};

// What one step took, in a run with profiling on.
struct StepTiming {
  double start_us = 0, end_us = 0;  // since the run began
};

// A run as it goes when nobody looks, steps beside each other: what the threads of a CPU or the streams of a GPU did when.
struct Timeline {
  struct Span {
    int32_t step;  // of the plan; several spans where threads share a step, or leave it and come back
    double start_us, end_us;  // since the run began
  };
  struct Lane {
    std::string name;         // "thread 0", "stream of exchanges"
    std::vector<Span> spans;  // in the order of time; they do not overlap
  };
  std::vector<Lane> lanes;
};

// Called after each step with what it read and wrote; in-place results have overwritten their inputs by then.
using StepObserver = std::function<void(const Step& step, std::span<const TensorView> inputs,
                                        std::span<const TensorView> outputs)>;

// How a plan is run, beside what it says.
struct RunnerOptions {
  bool side_stream = true;       // off: a GPU runs one step after the other
  bool peer_memory = true;       // off: GPUs of a host exchange data by NCCL alone
  KernelNames disabled_kernels;  // those that the plan was made without, ways that join steps among them
  std::shared_ptr<Collectives> collectives = {};  // of the ranks that run the plan together; null: one rank
};

struct RunOptions {
  bool find_nonfinite = false;  // stop with an Error at the first NaN, or infinity made of finite numbers
  std::vector<StepTiming>* timings =
      nullptr;                   // filled by step when not null: steps then run one after the other
  Timeline* timeline = nullptr;  // filled when not null, unless timings or an observer are asked for
  StepObserver observer;
};

// The Error for a step that reported a fault, and for the first step with a value that is not finite.
[[noreturn]] void fail_on_data(const Step& step, const Fault& fault);
// Throws Error where an exchange of the run failed, with what the ranks say. `exchange`: the step that it was; null: nobody
// knows.
void check_ranks(const Collectives* collectives, const Plan& plan, const Step* exchange = nullptr);
// `inputs` and `outputs`: of the step, on the host.
[[noreturn]] void fail_on_nonfinite(const Plan& plan, const Step& step, size_t output, const Nonfinite& found,
                                    bool inputs_were_finite, std::span<const TensorView> inputs,
                                    std::span<const TensorView> outputs);

// What a search for values that are not finite ends with: an Error that has the values around it.
class NonfiniteError : public Error {
 public:
  // Tensors of a step larger than this are left out, and inputs that it wrote its results over.
  static constexpr int64_t kMaxBytes = 256 << 20;

  struct Found {
    std::string entry;  // point that ran, with these sizes
    Bindings sizes;
    std::string node, author, op;  // node: after optimisation
    size_t output = 0;             // of the node's; and the first element of it that is not finite
    int64_t element = 0;
    std::vector<std::optional<Tensor>> inputs, outputs;  // empty: left out
  };

  NonfiniteError(std::string message, Found found) : Error(std::move(message)), found_(std::move(found)) {}
  const Found& found() const { return found_; }

 private:
  Found found_;
};

// Whether a search for the first value that is not finite takes this step's infinities for one: those that it
// made of finite numbers. What the model says itself (a mask's -inf) and what is passed on are none.
bool makes_infinities(const Step& step, bool inputs_were_finite);

class Runner {
 public:
  virtual ~Runner() = default;
  // Points the plan's buffers at memory. Must be called before the first run(), and when any address changed;
  // bind_inputs() is enough when only the inputs' did.
  virtual void bind(const PlanMemory& memory) = 0;
  virtual void bind_inputs(const PlanMemory& memory) = 0;
  // Starts the run; a device may go on with it after the return. The inputs' memory may be reused then. Where the
  // runner keeps_outputs(), a second run may be started before the host has waited for the first.
  virtual void run(const RunOptions& options) = 0;
  // While a run goes on: `inputs`, as bind_inputs() takes them, are those of the next run and will not
  // change. Where kernels read the host's memory there is nothing to do.
  virtual void stage(const std::vector<std::byte*>& inputs) { static_cast<void>(inputs); }
  // Until the first run that nobody has waited for yet is done. Throws Error that names the node when the data
  // could not be used. States may then be half updated.
  virtual void wait() = 0;
  // Whether what a run gives is there for output() while another runs.
  virtual bool keeps_outputs() const { return false; }
  // What the run that wait() ended gave, by Plan::outputs, where it came to the host with it; until the next
  // run(). Null: read it where the plan says.
  virtual const std::byte* output(size_t index) const {
    static_cast<void>(index);
    return nullptr;
  }
  // `kernels`: by step, what would run it alone. A runner that does several steps at once says so there.
  virtual void rename_kernels(std::vector<std::string>& kernels) const { static_cast<void>(kernels); }
  // By the device's own clock, over `repeats` runs that follow each other without the host between them.
  virtual double seconds_per_run(int repeats) = 0;
};

}  // namespace genesis
