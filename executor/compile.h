// From an entry point of a model to a plan: bind, optimise, plan. Needs no device, only what passes know of
// one, so plans for a GPU can be made and looked at anywhere. Used by Session and by genesis-opt --check.
#pragma once

#include <functional>
#include <memory>
#include <string_view>

#include "executor/runtime/runner.h"
#include "executor/session_options.h"
#include "schema/graph/model.h"
#include "schema/graph/plan.h"
#include "schema/graph/state_storage.h"
#include "schema/graph/target.h"

namespace genesis {

struct CompiledEntry {
  std::unique_ptr<Model> work;  // owns the constants that folding made
  Plan plan;
  RunnerOptions runner;  // as the options' switches have it
  StateStorage storage;  // states that the plan works with in parts, which `work` has; empty: none
};

// An entry point on its way to a plan: after binding ("bind"), and after every pass that changed it.
struct GraphSnapshot {
  std::string_view name, why;  // of the pass
  const Graph& graph;          // until the call returns
};
using SnapshotObserver = std::function<void(const GraphSnapshot&)>;

// How states are kept whichever entry points are compiled: those that the model has encoded, then those that ranks share,
// weights in parts among them.
StateStorage storage_of_all(const Model& model, const Target& target, const SessionOptions& options);

// Throws Error that names the entry point and the node when the target cannot run it. Weights are kept
// in parts where the entry point updates such as are worth it, or where they `are_stored` so already. The plan is of the
// graph that `observe`, where it is given, saw last.
CompiledEntry compile_entry(const Model& model, const std::string& entry, const Bindings& bindings,
                            const Target& target, const SessionOptions& options, bool are_stored = false,
                            const SnapshotObserver& observe = {});

// Of all states that the entry point reads or writes, as they are kept.
int64_t state_bytes(const CompiledEntry& compiled);
// Of the optimizer's states that the entry point updates, as they are kept: whole, or this rank's shards.
int64_t optimizer_bytes(const CompiledEntry& compiled);

}  // namespace genesis
