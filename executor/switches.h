// Sorts the names in --disable, GENESIS_DISABLE and SessionOptions::disabled by what they switch off: passes, steps of memory
// planning ("memory_reuse"), features of a runner ("side_stream"), kernels ("kernel:attention.blocks").
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
  std::set<std::string, std::less<>> passes;  // names of passes to skip
  passes::PlanOptions plan;
  RunnerOptions runner;
};

// Throws Error for an unknown name and suggests the nearest known one; known kernels are those of `target`. A kernel is named in
// full or by the name after the dot, which switches it off for every op. Implementations that join steps
// (DeviceKind::joining_implementations) of any device count as kernels, and their prefix is optional: "kernel:megakernel" is
// "megakernel". Without the pass fuse_elementwise, fuse_formulas is skipped, too.
Switches parse_switches(const std::set<std::string>& names, const Target& target);
// Adds the names in GENESIS_DISABLE.
Switches parse_switches_and_environment(std::set<std::string> names, const Target& target);

// Returns the names that are neither a pass nor a kernel.
std::vector<std::string_view> step_switches();

}  // namespace genesis
