#include "executor/inspection/run_needs.h"

#include <algorithm>
#include <set>

#include "executor/inspection/make_inputs.h"

namespace genesis {
namespace {

std::vector<KernelUse> kernel_uses(const Plan& plan, const Target& target, const RunnerOptions& options) {
  std::vector<KernelChoice> choices = choices_of(plan, target, options);
  std::vector<KernelUse> uses;
  for (size_t i = 0; i < choices.size(); ++i) {
    const Step& step = plan.steps[i];
    KernelChoice& choice = choices[i];
    auto use = std::ranges::find(uses, choice, &KernelUse::choice);
    if (use == uses.end()) use = uses.insert(uses.end(), {std::move(choice), {}, step.authored});
    ++use->ops[std::string(step.op->name())];
  }
  return uses;
}

RunNeeds needs_of(const Plan& plan, const Model& work) {
  RunNeeds needs{.entry = plan.entry, .arena = plan.arena_bytes};
  std::set<int32_t> states(plan.written_states.begin(), plan.written_states.end()), constants;
  for (const Step& step : plan.steps) {
    needs.workspace = std::max(needs.workspace, step.scratch_bytes);
    for (const auto* refs : {&step.inputs, &step.outputs})
      for (const BufferRef& ref : *refs)
        if (ref.space == Space::kState || ref.space == Space::kConstant)
          (ref.space == Space::kState ? states : constants).insert(ref.index);
  }
  for (int32_t state : states) needs.states += work.state(state).type.bytes();
  for (int32_t tensor : constants)
    needs.constants += work.tensors()[static_cast<size_t>(tensor)].tensor.bytes();
  for (const PlanPort& port : plan.inputs) needs.inputs += port.type.bytes();
  return needs;
}

}  // namespace

std::vector<RunNeeds> run_needs(const Model& model, const Bindings& sizes, const Target& target,
                                const SessionOptions& options, bool with_kernels) {
  check_sizes_exist(model, sizes);
  std::vector<RunNeeds> needs;
  for (const auto& entry : model.entries()) {
    const auto known = [&](const std::string& symbol) { return sizes.contains(symbol); };
    std::vector<std::string> symbols;
    for (ValueId id : entry->inputs()) {
      const Shape& shape = entry->type(id).shape;
      for (int i = 0; i < shape.rank(); ++i) shape[i].collect_symbols(symbols);
    }
    if (!std::ranges::all_of(symbols, known)) continue;
    const CompiledEntry made = compile_entry(model, entry->name(), sizes, target, options);
    needs.push_back(needs_of(made.plan, *made.work));
    if (with_kernels) needs.back().kernels = kernel_uses(made.plan, target, made.runner);
  }
  if (needs.empty()) fail("no entry point has all its sizes: give them by --size SYMBOL=SIZE");
  return needs;
}

}  // namespace genesis
