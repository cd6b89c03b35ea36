// Tells what runs of a model's entry points would take on a device, which need not be there: memory, and the kernels that would
// run.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "executor/compile.h"
#include "executor/runtime/step_call.h"
#include "schema/graph/model.h"

namespace genesis {

// Steps that run with one kernel, and for which better kernels were rejected for the same reasons.
struct KernelUse {
  KernelChoice choice;
  std::map<std::string, int> ops;  // number of steps by op
  std::string example;             // name of the first node
};

// Device memory in bytes that a run of one entry point takes, and the kernels that run it.
struct RunNeeds {
  std::string entry;
  std::vector<KernelUse> kernels;
  int64_t arena = 0, workspace = 0, states = 0, constants = 0, inputs = 0;
  int64_t peak() const { return arena + states + constants + inputs; }  // the workspace is part of the arena
};

// Returns the needs of the entry points whose sizes are all known; their kernels are left out without `with_kernels`. Throws
// Error if there is none, and for a size that no entry point has.
std::vector<RunNeeds> run_needs(const Model& model, const Bindings& sizes, const Target& target,
                                const SessionOptions& options, bool with_kernels);

}  // namespace genesis
