// A Plan: what a runner executes, as plain data. Made by passes/ for one entry point, one target and one
// binding of symbols; needs no compiler to run, and a file can carry one.
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
  int32_t index = 0;   // of the state, constant, input or output
  int64_t offset = 0;  // bytes from the start of that space (a view may start inside a state)
  int64_t bytes = 0;
  bool operator==(const BufferRef&) const = default;
};

struct Step {
  const OpDef* op = nullptr;
  Attributes attributes;
  std::string name;                                   // of the node
  std::string authored;                               // the author's name for it
  std::vector<TensorType> input_types, output_types;  // known sizes
  std::vector<BufferRef> inputs, outputs;
  int64_t scratch_offset = 0, scratch_bytes = 0;  // in the arena, alive during this step only
};

// After all steps: state `state` takes the bytes of `source` (an update that could not happen in place).
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

// A piece of the arena while it holds something: a value with all its views and what is written over it in
// place, or a step's scratch. Two blocks never share both a step and a byte.
struct ArenaBlock {
  std::string name;           // the author's name of the value it was made for; "... (scratch)"
  int64_t offset, bytes;      // as placed: rounded up to the target's alignment
  int32_t first_step, last_step;  // both included; what a run gives back lives to the last step
};

struct Plan {
  std::string entry;
  Bindings bindings;
  std::vector<Step> steps;        // in an order that respects all dependencies
  std::vector<PlanPort> inputs;   // space kInput
  std::vector<PlanPort> outputs;  // anywhere: an output may be a state, an input or a view
  std::vector<StateCopy> state_copies;
  std::vector<int32_t> written_states;  // sorted; in place or by copy
  int64_t arena_bytes = 0;
  int64_t lower_bound_bytes = 0;  // maximum over steps of live bytes
  std::vector<PeakTensor> peak;   // alive at the peak, largest first
  std::vector<ArenaBlock> blocks;  // what stands in the arena when; the most bytes at once are the lower bound
};

}  // namespace genesis
