#include "executor/switches.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "passes/pipelines.h"
#include "schema/graph/near_names.h"

namespace genesis {
namespace {

constexpr std::string_view kKernelPrefix = "kernel:";
constexpr std::string_view kOrder = "node_order", kInPlace = "in_place", kReuse = "memory_reuse",
                           kSideStream = "side_stream", kMegakernel = "megakernel",
                           kPeerMemory = "peer_memory";
constexpr std::string_view kSteps[] = {kOrder, kInPlace, kReuse, kSideStream, kMegakernel, kPeerMemory};

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
  std::vector<std::string> there(std::begin(kSteps), std::end(kSteps));
  for (const passes::Pass& pass : passes::all_passes()) there.emplace_back(pass.name);
  if (std::ranges::find(there, name) == there.end())
    fail("there is no pass '{}'{}; the passes are: {}; a kernel is written kernel:NAME", name,
         did_you_mean(name, there), fmt::join(there, ", "));
}

}  // namespace

std::span<const std::string_view> step_switches() { return kSteps; }

Switches parse_switches(const std::set<std::string>& names, const Target& target) {
  Switches switches;
  for (const std::string& name : names) {
    if (name.starts_with(kKernelPrefix)) {
      switch_off_kernel(name.substr(kKernelPrefix.size()), target, switches.runner.disabled_kernels);
      continue;
    }
    check_is_there(name);
    if (name == kOrder)
      switches.plan.schedule = false;
    else if (name == kInPlace)
      switches.plan.in_place = false;
    else if (name == kReuse)
      switches.plan.reuse = false;
    else if (name == kSideStream)
      switches.runner.side_stream = false;
    else if (name == kMegakernel)
      switches.runner.megakernel = false;
    else if (name == kPeerMemory)
      switches.runner.peer_memory = false;
    else
      switches.passes.insert(name);
  }
  return switches;
}

}  // namespace genesis
