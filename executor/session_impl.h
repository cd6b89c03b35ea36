// Session::Impl holds a session's model and device, its memory, the entry points compiled so far, and the runs under way. Session
// (session_calls.cpp), Inspector (inspector.cpp) and CachePages (cache_pages.cpp) are its interfaces, and snapshot.cpp copies its
// states; no other file includes this one.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "executor/one_call.h"
#include "executor/recently_used.h"
#include "executor/runtime/device.h"
#include "executor/session.h"
#include "executor/session_memory.h"
#include "executor/started_runs.h"

namespace genesis {

class Session::Impl {
 public:
  Impl(std::shared_ptr<const Model> model, SessionOptions options);

  // Marks the session as busy during one call. Every call below is made under this mark.
  OneCall one_call() { return OneCall(busy_); }

  const Model& model() const { return *model_; }
  // Returns the model that has this entry point: the session's, or one of add_entries(). find_model() returns null if none has it;
  // model_of() returns the session's then, which names its own entry points in an Error.
  const Model* find_model(const std::string& entry) const;
  const Model& model_of(const std::string& entry) const;
  void add_entries(const std::shared_ptr<const Model>& model);
  const SessionOptions& options() const { return options_; }
  Device& device() { return *device_; }
  SessionMemory& memory() { return memory_; }
  StateMemory& states() { return memory_.states(); }
  // The bytes of the arena that entry points share, and of those in which plans keep the values that they have prepared.
  int64_t arena_bytes() const;
  int64_t plans() const { return static_cast<int64_t>(compiled_.size()); }

  // Returns the entry point compiled for these sizes, or for the sizes of the inputs.
  CompiledPtr compile(const std::string& entry, const Bindings& bindings);
  CompiledPtr compile(const std::string& entry, const NamedTensors& inputs);

  // Throws Error if a run was started and its result was not taken.
  void check_idle() const { started_.check_empty(); }
  // Runs and waits. The results stay in the device's memory.
  void execute(Compiled& compiled, const NamedTensors& inputs, const RunOptions& options);
  void start(const CompiledPtr& compiled, const NamedTensors& inputs);
  void stage(const CompiledPtr& compiled, const NamedTensors& inputs);
  NamedTensors result();

  // Computes the values that an entry point has prepared, if states have changed since; before it is bound.
  void prepare(Compiled& compiled);
  // Says that states may have other values from now on.
  void note_changed_states() { ++states_version_; }

  // Throws Error that lists similar names.
  int32_t state_index(const std::string& name) const;
  NamedTensors state_values(bool (*is_wanted)(const State&)) const;
  // Names and types of `values` have been checked, unless there is only one.
  void set_states(const NamedTensors& values);
  void set_encoded(const std::map<int32_t, EncodedValues>& values);
  void grow_cache(int64_t positions);

 private:
  CompiledPtr make(const std::string& entry, const Bindings& bindings);
  bool is_prepared(const Compiled& compiled) const {
    return !compiled.prepared || compiled.prepared_at == states_version_;
  }
  void keep_states_as(const StateStorage& storage);

  std::shared_ptr<const Model> model_;
  std::vector<std::shared_ptr<const Model>> more_;  // models of add_entries()
  SessionOptions options_;
  std::shared_ptr<Device> device_;
  SessionMemory memory_;
  RecentlyUsed<std::pair<std::string, Bindings>, Compiled> compiled_;
  std::unique_ptr<Model> with_parts_;  // the model's tables with the parts, once states are kept in parts
  size_t kept_groups_ = 0;             // number of stored groups: encoded states, shards, then weights
  bool are_stored_ = false;
  int64_t states_version_ = 0;          // counts changes of states
  std::vector<DeviceMemory> outlived_;  // old state memory that outputs of the started run may lie in
  StartedRuns started_;
  CompiledPtr staged_;  // the next run, if it was staged
  std::atomic<bool> busy_ = false;
};

}  // namespace genesis
