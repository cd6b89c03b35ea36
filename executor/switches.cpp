#include "executor/switches.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>

#include "executor/environment.h"
#include "executor/runtime/device.h"
#include "passes/pipelines.h"
#include "schema/graph/near_names.h"

namespace genesis {
namespace {

constexpr std::string_view kKernelPrefix = "kernel:";

struct StepSwitch {
  std::string_view name;
  bool& (*of)(Switches&);
  bool counts_as_kernel = false;  // a runner feature: also accepted as a kernel's name
};
constexpr StepSwitch kSteps[] = {
    {"node_order", [](Switches& s) -> bool& { return s.plan.schedule; }},
    {"in_place", [](Switches& s) -> bool& { return s.plan.in_place; }},
    {"memory_reuse", [](Switches& s) -> bool& { return s.plan.reuse; }},
    {"side_stream", [](Switches& s) -> bool& { return s.runner.side_stream; }, true},
    {"peer_memory", [](Switches& s) -> bool& { return s.runner.peer_memory; }, true},
};

void switch_off_kernel(const std::string& name, const Target& target, KernelNames& disabled) {
  const std::vector<std::string> there =
      target.kernel_names ? target.kernel_names() : std::vector<std::string>();
  const auto is_named = [&](const std::string& kernel) {
    return kernel == name || kernel.substr(kernel.find('.') + 1) == name;
  };
  if (std::ranges::none_of(there, is_named))
    fail("{} has no kernel '{}'{}; `genesis-run info --kernels` lists those that a model takes",
         target.device, name, did_you_mean(name, there));
  disabled.insert(name);
}

void check_is_there(const std::string& name) {
  const std::vector<std::string_view> steps = step_switches();
  std::vector<std::string> there(steps.begin(), steps.end());
  for (const passes::Pass& pass : passes::all_passes()) there.emplace_back(pass.name);
  if (std::ranges::find(there, name) == there.end())
    fail("there is no pass '{}'{}; the passes are: {}; a kernel is written kernel:NAME", name,
         did_you_mean(name, there), fmt::join(there, ", "));
}

}  // namespace

std::vector<std::string_view> step_switches() {
  std::vector<std::string_view> names;
  for (const StepSwitch& step : kSteps) names.push_back(step.name);
  std::ranges::copy(all_joining_implementations(), std::back_inserter(names));
  return names;
}

Switches parse_switches(const std::set<std::string>& names, const Target& target) {
  Switches switches;
  const std::vector<std::string_view> joining = all_joining_implementations();
  for (const std::string& name : names) {
    const bool is_kernel = name.starts_with(kKernelPrefix);
    const std::string bare = is_kernel ? name.substr(kKernelPrefix.size()) : name;
    const auto* step = std::ranges::find(kSteps, bare, &StepSwitch::name);
    if (step != std::end(kSteps) && (step->counts_as_kernel || !is_kernel)) {
      step->of(switches) = false;
    } else if (std::ranges::find(joining, bare) != joining.end()) {
      switches.runner.disabled_kernels.insert(bare);
    } else if (is_kernel) {
      switch_off_kernel(bare, target, switches.runner.disabled_kernels);
    } else {
      check_is_there(name);
      switches.passes.insert(name);
    }
  }
  // A formula takes the place of a kernel only to be fused.
  if (switches.passes.contains("fuse_elementwise")) switches.passes.insert("fuse_formulas");
  return switches;
}

Switches parse_switches_and_environment(std::set<std::string> names, const Target& target) {
  names.insert(environment().disabled.begin(), environment().disabled.end());
  return parse_switches(names, target);
}

}  // namespace genesis
