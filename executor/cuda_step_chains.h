// Chains of a plan: steps that follow each other, each over one row, which one kernel of a GPU does together
// (executor/cuda_chain.h). What a link gives goes to the links that ask for it through slots of that kernel;
// memory gets it only where somebody outside reads it. Needs no device.
#pragma once

#include <vector>

#include "backends/cuda/link_shape.h"
#include "schema/plan.h"

namespace genesis {

// Where a link finds a vector.
struct ChainSource {
  int link = -1;        // of the chain; -1: in memory, where the step says
  int64_t element = 0;  // of all that the link gives, output after output
};

struct ChainLink {
  size_t step = 0;  // of the plan
  cuda::LinkShape shape;
  std::vector<ChainSource> sources;  // as shape.vectors(); of an attention, what its norms read
  int q_norm = -1, k_norm = -1;      // of an attention: links that it does itself
  ChainSource addend;
  std::vector<bool> kept;  // by shape.elements: the output goes to memory too
  int slot = -1;           // where the link leaves what it gives to others; -1: to memory alone
};

struct StepChain {
  std::vector<ChainLink> links;  // of consecutive steps
  int slots = 0;
  int64_t slot_elements = 0;  // of the largest

  size_t first() const { return links.front().step; }
  size_t end() const { return links.back().step + 1; }
};

// Every link of a chain that overwrites a slot, or memory that other links read, depends on all that those
// links have read: a block of the kernel that comes to it knows that all blocks are done with them. A chain
// ends before a step for which that does not hold, and after kMostLinks. None has less than kLeastLinks.
inline constexpr size_t kLeastLinks = 3, kMostLinks = 256;
std::vector<StepChain> find_step_chains(const Plan& plan);

}  // namespace genesis
