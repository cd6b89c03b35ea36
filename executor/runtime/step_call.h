// A step with everything resolved: what remains for the run is one indirect call. Used by the runners of all
// devices.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "executor/runtime/runner.h"

namespace genesis {

struct StepCall {
  const Step* step = nullptr;
  void (*run)(const KernelContext&) = nullptr;
  std::string_view implementation;  // name of the kernel chosen
  KernelContext context;
  std::vector<TensorView> inputs, outputs;  // the context's
  std::shared_ptr<const void> attributes, prepared;

  void operator()() const { run(context); }
};

// "node 'layers.3.mlp' (swiglu, kernel 'rows')", for errors.
std::string description(const StepCall& call);

// A step as a backend is asked about it. `disabled`, which the query points to: kernels that the plan was made without.
inline KernelQuery query_of(const Step& step, const KernelNames& disabled) {
  return {*step.op, step.attributes, step.input_types, step.output_types, &disabled};
}

// By a device: what runs an op, best first.
using FindKernels = std::span<const KernelImpl> (*)(std::string_view op);

// The calls of a plan, not yet bound to memory. Throws Error that names the node a device cannot run. `disabled`:
// kernels that the plan was made without.
std::vector<StepCall> make_step_calls(const Plan& plan, FindKernels kernels, const KernelNames& disabled);
// By step, the way that a run takes, one that runs many steps together too, and why better ones do not run it. Throws Error
// where the target does not tell.
std::vector<KernelChoice> choices_of(const Plan& plan, const Target& target, const RunnerOptions& options);
// By step, the kernel that its call runs, down to the ways of a matrix product: "attention.blocks", "gemm.packed". Of
// a target that does not tell, the op.
std::vector<std::string> kernels_of(const Plan& plan, const Target& target, const KernelNames& disabled);

}  // namespace genesis
