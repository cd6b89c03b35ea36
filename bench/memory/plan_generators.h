// Generates hard instances of offset planning for plan_instances: a kind, a number of buffers and a seed define an instance.
// Perfect packings have a known optimum: their lower bound can be reached.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "passes/memory/offsets/offset_planner.h"

namespace genesis::bench {

struct PlanInstance {
  std::string kind;
  uint64_t seed = 0;
  std::vector<passes::PlanBuffer> buffers;
};

// Returns all kinds of hard instances that make_instance() knows.
std::vector<std::string> hard_kinds();

PlanInstance make_instance(const std::string& kind, int buffers, uint64_t seed);

// Returns an instance like a training step of a transformer: activations live from the forward to the backward pass, temporaries
// for one step.
PlanInstance make_train_step(int buffers, uint64_t seed);

}  // namespace genesis::bench
