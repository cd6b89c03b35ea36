// What the states of a session hold at one moment, copied while runs go on: take() between two runs is short,
// model() gives the values whenever they have arrived, as a model to be saved. Of several ranks each takes its part of the
// states (state_parts.h), which part() gives. Used by CheckpointWriter.
#pragma once

#include <cstddef>
#include <memory>

#include "executor/runtime/downloads.h"
#include "executor/states/state_memory.h"
#include "executor/states/state_parts.h"
#include "schema/graph/model.h"

namespace genesis {

// Made by Session::make_state_snapshot(), which must outlive it. Its calls must follow one another; reserve()
// and model() may come from another thread than the session's.
class StateSnapshot {
 public:
  StateSnapshot(const Model& model, const StateMemory& states, Device& device, StateParts parts = {});

  const Model& session_model() const { return model_; }
  const StateParts& parts() const { return parts_; }
  std::string failure_of_ranks() const { return states_.failure_of_ranks(); }
  // The size of the copies to take, now.
  StateCopies layout() const {
    return states_.copies([&](int32_t state) { return parts_.is_mine(state); });
  }
  // Memory for such copies; beside runs, for it takes seconds for gigabytes. False: the host has not enough
  // left.
  bool reserve(const StateCopies& layout);
  // Between two runs, in the session's thread. False, with nothing taken: the states have grown beyond what
  // has been reserved, and the host has no memory for more.
  bool take();
  // The session's model with the values taken, of all states but caches. Its tensors are valid until the next
  // take() or reserve(). Of one rank that keeps all.
  std::unique_ptr<Model> model();
  // A model of states alone, those that this rank keeps; shared ones are flat. Likewise.
  std::unique_ptr<Model> part();
  // The same with the values of this moment, in the session's thread, without take().
  std::unique_ptr<Model> part_now() const;

 private:
  // A state with its values taken.
  State taken(const StateCopies::Value& value, const std::byte* copies, int64_t& decoded) const;
  std::map<int32_t, State> all_taken();
  void find_untouched();

  const Model& model_;
  const StateMemory& states_;
  const StateParts parts_;
  std::unique_ptr<Downloads> downloads_;
  StateCopies taken_;
  std::map<int32_t, State> untouched_;
  std::unique_ptr<std::byte[]> decoded_;  // values of states that are kept in parts
  int64_t decoded_room_ = 0;
};

}  // namespace genesis
