// A step with everything resolved, so that running it is one indirect call.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "executor/runtime/runner.h"

namespace genesis {

struct StepCall {
  const Step* step = nullptr;
  void (*run)(const KernelContext&) = nullptr;
  std::string_view implementation;  // name of the chosen kernel
  KernelContext context;
  std::vector<TensorView> inputs, outputs;  // the same as those of the context
  std::shared_ptr<const void> attributes, prepared;

  void operator()() const { run(context); }
};

// Returns e.g. "node 'layers.3.mlp' (swiglu, kernel 'rows')", for errors.
std::string description(const StepCall& call);

// Returns the query by which a backend chooses a kernel for the step. The query refers to `disabled`, the kernels that were
// switched off when the plan was made.
inline KernelQuery query_of(const Step& step, const KernelNames& disabled) {
  return {*step.op, step.attributes, step.input_types, step.output_types, &disabled};
}

// A device's function that returns the kernels of an op, best first.
using FindKernels = std::span<const KernelImpl> (*)(std::string_view op);

// Returns the calls of a plan, not yet bound to memory. Throws Error that names a node the device cannot run. `disabled`: the
// kernels that were switched off when the plan was made.
std::vector<StepCall> make_step_calls(const Plan& plan, FindKernels kernels, const KernelNames& disabled);
// Returns for each step the implementation that a run uses, including those that run several steps together, and why better ones
// decline it. Throws Error if the target does not tell.
std::vector<KernelChoice> choices_of(const Plan& plan, const Target& target, const RunnerOptions& options);
// Returns for each step the kernel that its call runs; for a matrix product the GEMM implementation: "attention.blocks",
// "gemm.packed". For a target that does not tell, the op.
std::vector<std::string> kernels_of(const Plan& plan, const Target& target, const KernelNames& disabled);

}  // namespace genesis
