#include "executor/runtime/step_call.h"

#include "backends/kernel_table.h"
#include "executor/runtime/device.h"
#include "schema/core/error.h"

namespace genesis {
namespace {

StepCall make_call(const Step& step, FindKernels kernels, const KernelNames& disabled) {
  const KernelQuery query = query_of(step, disabled);
  const KernelImpl& kernel = select_kernel(kernels(step.op->name()), query);
  StepCall call{.step = &step, .run = kernel.run, .implementation = kernel.name, .context = {}};
  call.attributes = step.op->parse(step.attributes);
  if (kernel.prepare) call.prepared = kernel.prepare(query);
  for (const TensorType& type : step.input_types) call.inputs.push_back(view_of(type, nullptr));
  for (const TensorType& type : step.output_types) call.outputs.push_back(view_of(type, nullptr));
  call.context.inputs = call.inputs;
  call.context.outputs = call.outputs;
  call.context.attributes_ptr = call.attributes.get();
  call.context.prepared_ptr = call.prepared.get();
  return call;
}

}  // namespace

std::string description(const StepCall& call) {
  return fmt::format("node '{}' ({}, kernel '{}')", call.step->authored, call.step->op->name(),
                     call.implementation);
}

std::vector<StepCall> make_step_calls(const Plan& plan, FindKernels kernels, const KernelNames& disabled) {
  std::vector<StepCall> calls;
  calls.reserve(plan.steps.size());
  for (const Step& step : plan.steps)
    with_context([&] { calls.push_back(make_call(step, kernels, disabled)); },
                 [&] { return "while preparing node '" + step.authored + "'"; });
  return calls;
}

std::vector<KernelChoice> choices_of(const Plan& plan, const Target& target, const RunnerOptions& options) {
  if (!target.choose) fail("{} does not tell which kernels it would take", target.device);
  std::vector<KernelChoice> choices(plan.steps.size());
  if (const DeviceKind* kind = find_device_kind(target.device); kind && kind->choose_joined)
    choices = kind->choose_joined(plan, options.disabled_kernels);
  for (size_t i = 0; i < choices.size(); ++i) {
    KernelChoice& choice = choices[i];
    if (!choice.name.empty()) continue;
    KernelChoice alone = target.choose(query_of(plan.steps[i], options.disabled_kernels));
    alone.declined.insert(alone.declined.begin(), choice.declined.begin(), choice.declined.end());
    choice = std::move(alone);
  }
  return choices;
}

std::vector<std::string> kernels_of(const Plan& plan, const Target& target, const KernelNames& disabled) {
  std::vector<std::string> kernels;
  for (const Step& step : plan.steps)
    kernels.push_back(target.choose ? target.choose(query_of(step, disabled)).name
                                    : std::string(step.op->name()));
  return kernels;
}

}  // namespace genesis
