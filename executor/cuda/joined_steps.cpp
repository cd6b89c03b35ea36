#include "executor/cuda/joined_steps.h"

#include <algorithm>

#include "executor/runtime/device.h"

namespace genesis {
namespace {

// Assigns the ranges of an implementation to it, except where a better one has a step of them, and records why the other steps
// are in none.
void take(const JoiningImplementation& implementation, const JoinableSteps& found, bool is_on,
          std::vector<KernelChoice>& choices) {
  for (size_t i = 0; i < choices.size(); ++i)
    if (choices[i].name.empty() && !found.declined[i].empty())
      choices[i].declined.push_back({std::string(implementation.name), found.declined[i]});
  for (const StepRange& range : found.ranges) {
    const std::span<KernelChoice> steps = std::span(choices).subspan(range.first, range.end - range.first);
    const bool is_free = std::ranges::all_of(steps, &std::string::empty, &KernelChoice::name);
    for (KernelChoice& choice : steps)
      if (is_on && is_free) {
        choice.name = implementation.name;
        choice.decided_later = implementation.decided_later;
      } else if (choice.name.empty()) {
        choice.declined.push_back({std::string(implementation.name),
                                   is_on ? "a better implementation has some of its steps" : "switched off"});
      }
  }
}

}  // namespace

std::span<const JoiningImplementation> joining_implementations() {
  static const std::vector<JoiningImplementation> implementations = {megakernel_implementation()};
  return implementations;
}

std::vector<KernelChoice> choose_joined(std::span<const JoiningImplementation> implementations,
                                        const Plan& plan, const KernelNames& disabled) {
  std::vector<KernelChoice> choices(plan.steps.size());
  for (const JoiningImplementation& implementation : implementations)
    take(implementation, implementation.find(plan), !disabled.contains(implementation.name), choices);
  return choices;
}

std::vector<KernelChoice> choose_cuda_joined(const Plan& plan, const KernelNames& disabled) {
  return choose_joined(joining_implementations(), plan, disabled);
}

std::vector<std::string_view> cuda_joining_implementations() {
  std::vector<std::string_view> names;
  for (const JoiningImplementation& implementation : joining_implementations())
    names.push_back(implementation.name);
  return names;
}

}  // namespace genesis
