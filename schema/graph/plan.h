// A Plan: the steps that a runner executes, as plain data. passes/ creates it for one entry point, one target and one binding of
// symbols. Running it needs no compiler, and a file can hold one.
#pragma once

#include <string>
#include <vector>

#include "schema/core/attributes.h"
#include "schema/graph/op.h"

namespace genesis {

enum class Space : uint8_t {
  kArena,     // offset into the arena
  kState,     // index into the model's states
  kConstant,  // index into the model's tensors
  kInput,     // index into Plan::inputs; the caller's memory

};

struct BufferRef {
  Space space = Space::kArena;
  int32_t index = 0;   // index of the state, constant, input or output
  int64_t offset = 0;  // bytes from the start of that space (a view may start inside a state)
  int64_t bytes = 0;
  bool operator==(const BufferRef&) const = default;
};

struct Step {
  const OpDef* op = nullptr;
  Attributes attributes;
  std::string name;                                   // name of the node
  std::string authored;                               // the author's name of the node
  std::vector<TensorType> input_types, output_types;  // known sizes
  std::vector<BufferRef> inputs, outputs;
  int64_t scratch_offset = 0, scratch_bytes = 0;  // in the arena, live only during this step
};

// After all steps, copies the bytes of `source` to state `state` (an update that could not happen in place).
struct StateCopy {
  int32_t state;
  BufferRef source;
};

struct PlanPort {
  std::string name;
  TensorType type;
  BufferRef buffer;
};

struct PeakTensor {
  std::string name;  // the author's name
  int64_t bytes;
};

// A range of the arena while it is in use: by a value with all its views and the values that overwrite it in place, or by a
// step's scratch memory. Two blocks never share both a step and a byte.
struct ArenaBlock {
  std::string name;               // the author's name of the value it was allocated for; "... (scratch)"
  int64_t offset, bytes;          // after rounding up to the target's alignment
  int32_t first_step, last_step;  // both inclusive; outputs of the run live to the last step
};

struct Plan {
  std::string entry;
  Bindings bindings;
  std::vector<Step> steps;        // in an order that respects all dependencies
  std::vector<PlanPort> inputs;   // space kInput
  std::vector<PlanPort> outputs;  // anywhere: an output may be a state, an input or a view
  std::vector<StateCopy> state_copies;
  std::vector<int32_t> written_states;  // sorted; written in place or by a copy
  int64_t arena_bytes = 0;
  int64_t lower_bound_bytes = 0;   // greatest number of live bytes in any step
  std::vector<PeakTensor> peak;    // live at the peak, largest first
  std::vector<ArenaBlock> blocks;  // contents of the arena over time; the lower bound is their peak sum
  // Plans of the bodies of loops, by Plan::entry; the arena of each lies in the scratch memory of the steps that run it.
  std::vector<Plan> bodies;
};

}  // namespace genesis
