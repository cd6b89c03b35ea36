// What the states of a session hold at one moment, copied while runs go on: take() between two runs is short,
// model() gives the values whenever they have arrived, as a model to be saved. Used by CheckpointWriter.
#pragma once

#include <cstddef>
#include <memory>

#include "executor/runtime/downloads.h"
#include "executor/states/state_memory.h"
#include "schema/graph/model.h"

namespace genesis {

// Made by Session::make_state_snapshot(), which must outlive it. Its calls must follow one another; reserve()
// and model() may come from another thread than the session's.
class StateSnapshot {
 public:
  StateSnapshot(const Model& model, const StateMemory& states, Device& device);

  // The size of the copies to take, now.
  StateCopies layout() const { return states_.copies(); }
  // Memory for such copies; beside runs, for it takes seconds for gigabytes. False: the host has not enough
  // left.
  bool reserve(const StateCopies& layout);
  // Between two runs, in the session's thread. False, with nothing taken: the states have grown beyond what
  // has been reserved, and the host has no memory for more.
  bool take();
  // The session's model with the values taken, of all states but caches. Its tensors are valid until the next
  // take() or reserve().
  std::unique_ptr<Model> model();

 private:
  const Model& model_;
  const StateMemory& states_;
  std::unique_ptr<Downloads> downloads_;
  StateCopies taken_;
  std::unique_ptr<std::byte[]> decoded_;  // values of states that are kept in parts
  int64_t decoded_room_ = 0;
};

}  // namespace genesis
