// What --disable, GENESIS_DISABLE and SessionOptions::disabled_passes switch off, sorted by who heeds it: passes,
// steps of memory planning ("memory_reuse"), ways of a runner ("side_stream"), kernels ("kernel:attention.blocks").
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "executor/runtime/runner.h"
#include "passes/memory/make_plan.h"
#include "schema/graph/target.h"

namespace genesis {

struct Switches {
  std::set<std::string, std::less<>> passes;  // names to leave out
  passes::PlanOptions plan;
  RunnerOptions runner;
};

// Throws Error for a name that is none, with the nearest that there is; kernels are those of `target`. A kernel goes
// by its full name or by what stands behind the dot, which means it for every op. Ways that join steps (DeviceKind::joining_ways)
// are kernels too, of whatever device, and their prefix may be left out: "kernel:megakernel" is "megakernel".
Switches parse_switches(const std::set<std::string>& names, const Target& target);
// With the names that GENESIS_DISABLE has.
Switches parse_switches_and_environment(std::set<std::string> names, const Target& target);

// Those that are no pass and no kernel.
std::vector<std::string_view> step_switches();

}  // namespace genesis
