// Copies the states of a session at one moment while runs go on: take() between two runs is short, and model() returns the values
// as a model to be saved, once they have arrived. With several ranks each takes its own shards and states (state_shards.h), which
// shard() returns.
#pragma once

#include <cstddef>
#include <memory>

#include "executor/runtime/downloads.h"
#include "executor/states/state_memory.h"
#include "executor/states/state_shards.h"
#include "schema/graph/model.h"

namespace genesis {

// Made by make_state_snapshot() (executor/snapshot.h); the session must outlive it. Calls must not overlap; reserve() and model()
// may come from another thread than the session's.
class StateSnapshot {
 public:
  StateSnapshot(const Model& model, const StateMemory& states, Device& device, StateShards shards = {});

  const Model& session_model() const { return model_; }
  const StateShards& shards() const { return shards_; }
  std::string failure_of_ranks() const { return states_.failure_of_ranks(); }
  // Returns the sizes of the copies that take() would make now.
  StateCopies layout() const {
    return states_.copies([&](int32_t state) { return shards_.is_mine(state); });
  }
  // Reserves memory for the copies. Call it while runs go on, since it takes seconds for gigabytes. Returns false if the host has
  // too little memory left.
  bool reserve(const StateCopies& layout);
  // Takes the copies between two runs, in the session's thread. Returns false, and takes nothing, if the states have outgrown the
  // reserved memory and the host has no more.
  bool take();
  // Returns the session's model with the values taken, of all states but caches; for a rank that keeps everything. Its tensors
  // are valid until the next take() or reserve().
  std::unique_ptr<Model> model();
  // Returns a model with only the states that this rank writes; sharded ones are flat. Its tensors are valid as long.
  std::unique_ptr<Model> shard();
  // Returns the same with the current values, in the session's thread and without take().
  std::unique_ptr<Model> shard_now() const;

 private:
  // Returns the state with the value taken.
  State taken(const StateCopies::Value& value, const std::byte* copies, int64_t& decoded) const;
  std::map<int32_t, State> all_taken();
  void find_untouched();

  const Model& model_;
  const StateMemory& states_;
  const StateShards shards_;
  std::unique_ptr<Downloads> downloads_;
  StateCopies taken_;
  std::map<int32_t, State> untouched_;
  std::unique_ptr<std::byte[]> decoded_;  // values of states that are stored in parts
  int64_t decoded_bytes_ = 0;
};

}  // namespace genesis
