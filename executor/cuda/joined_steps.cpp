#include "executor/cuda/joined_steps.h"

#include <algorithm>

#include "executor/runtime/device.h"

namespace genesis {
namespace {

// Assigns the ranges of an implementation to it, except where a better one has a step of them, and records why the other steps
// are in none.
void take(const JoiningWay& way, const JoinableSteps& found, bool is_on, std::vector<KernelChoice>& choices) {
  for (size_t i = 0; i < choices.size(); ++i)
    if (choices[i].name.empty() && !found.declined[i].empty())
      choices[i].declined.push_back({std::string(way.name), found.declined[i]});
  for (const StepRange& range : found.ranges) {
    const std::span<KernelChoice> steps = std::span(choices).subspan(range.first, range.end - range.first);
    const bool is_free = std::ranges::all_of(steps, &std::string::empty, &KernelChoice::name);
    for (KernelChoice& choice : steps)
      if (is_on && is_free) {
        choice.name = way.name;
        choice.decided_later = way.decided_later;
      } else if (choice.name.empty()) {
        choice.declined.push_back(
            {std::string(way.name), is_on ? "a better way has some of its steps" : "switched off"});
      }
  }
}

}  // namespace

std::span<const JoiningWay> joining_ways() {
  static const std::vector<JoiningWay> ways = {megakernel_way()};
  return ways;
}

std::vector<KernelChoice> choose_joined(std::span<const JoiningWay> ways, const Plan& plan,
                                        const KernelNames& disabled) {
  std::vector<KernelChoice> choices(plan.steps.size());
  for (const JoiningWay& way : ways) take(way, way.find(plan), !disabled.contains(way.name), choices);
  return choices;
}

std::vector<KernelChoice> choose_cuda_joined(const Plan& plan, const KernelNames& disabled) {
  return choose_joined(joining_ways(), plan, disabled);
}

std::vector<std::string_view> cuda_joining_ways() {
  std::vector<std::string_view> names;
  for (const JoiningWay& way : joining_ways()) names.push_back(way.name);
  return names;
}

}  // namespace genesis
