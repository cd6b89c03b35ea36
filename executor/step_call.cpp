#include "executor/step_call.h"

#include <tbb/parallel_for.h>

#include <set>

#include "schema/error.h"

namespace genesis {
namespace {

KernelQuery query_of(const Step& step) {
  return {*step.op, step.attributes, step.input_types, step.output_types};
}

// What steps with the same kernel, ready for the same work, have in common.
std::string words_of(const Step& step) {
  std::string words(step.op->name());
  words += step.attributes.to_string();
  for (const auto* types : {&step.input_types, &step.output_types})
    for (const TensorType& type : *types) words += " " + type.to_string();
  return words;
}

class Maker {
 public:
  Maker(const Plan& plan, KernelTable kernels)
      : plan_(plan), kernels_(plan.steps.size()), calls_(plan.steps.size()) {
    for_each_step([&](size_t i) { select(i, kernels); });
  }

  // First one of each kind, so that no two threads make the same at once; the others find it made.
  void prepare(const SideBySide& side_by_side) {
    std::set<std::string> kinds;
    std::vector<size_t> first, others;
    for (size_t i = 0; i < calls_.size(); ++i)
      if (kernels_[i]->prepare && side_by_side.may && side_by_side.may(*kernels_[i]))
        (kinds.insert(words_of(plan_.steps[i])).second ? first : others).push_back(i);
    for (const auto* steps : {&first, &others})
      tbb::parallel_for(size_t{0}, steps->size(), [&](size_t i) {
        side_by_side.enter();
        prepare_step((*steps)[i]);
      });
    for (size_t i = 0; i < calls_.size(); ++i) prepare_step(i);
  }

  std::vector<StepCall> take() { return std::move(calls_); }

 private:
  template <class Body>
  void with_name(size_t i, const Body& body) const {
    with_context(body, [&] { return "while preparing node '" + plan_.steps[i].authored + "'"; });
  }
  template <class Body>
  void for_each_step(const Body& body) const {
    for (size_t i = 0; i < plan_.steps.size(); ++i) with_name(i, [&] { body(i); });
  }

  void select(size_t i, KernelTable kernels) {
    const Step& step = plan_.steps[i];
    const KernelImpl& kernel = select_kernel(kernels(step.op->name()), query_of(step));
    kernels_[i] = &kernel;
    StepCall& call = calls_[i];
    call.step = &step;
    call.run = kernel.run;
    call.implementation = kernel.name;
    call.attributes = step.op->parse(step.attributes);
    for (const TensorType& type : step.input_types) call.inputs.push_back(view_of(type, nullptr));
    for (const TensorType& type : step.output_types) call.outputs.push_back(view_of(type, nullptr));
    call.context.inputs = call.inputs;
    call.context.outputs = call.outputs;
    call.context.attributes_ptr = call.attributes.get();
  }

  void prepare_step(size_t i) {
    StepCall& call = calls_[i];
    if (call.prepared || !kernels_[i]->prepare) return;
    with_name(i, [&] { call.prepared = kernels_[i]->prepare(query_of(plan_.steps[i])); });
    call.context.prepared_ptr = call.prepared.get();
  }

  const Plan& plan_;
  std::vector<const KernelImpl*> kernels_;  // by step, as calls_
  std::vector<StepCall> calls_;
};

}  // namespace

std::vector<StepCall> make_step_calls(const Plan& plan, KernelTable kernels, const SideBySide& side_by_side) {
  Maker maker(plan, kernels);
  maker.prepare(side_by_side);
  return maker.take();
}

}  // namespace genesis
