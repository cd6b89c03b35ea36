// Compiles an entry point of a model into a plan: binds its symbols, runs the passes and plans memory. Needs no device, only the
// facts that passes know of one (Target), so plans for a GPU can be made and inspected on any machine.
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
  RunnerOptions runner;  // set by the options' switches
  StateStorage storage;  // states that the plan keeps in parts (tensors of `work`); may be empty
  // The plan that computes values of the states alone, and the tensors of `work` for its outputs "0", "1", ...; empty: none.
  Plan prepared;
  std::vector<int32_t> prepared_tensors;
};

// A graph during compilation: after binding (`name` is "bind"), or after a pass that changed it.
struct GraphSnapshot {
  std::string_view name, why;  // name of the pass, and why it runs
  const Graph& graph;          // valid until the observer returns
};
using SnapshotObserver = std::function<void(const GraphSnapshot&)>;

// Returns how states are stored regardless of which entry points are compiled: first the states that the model has encoded, then
// those that ranks share, weights kept in parts among them.
StateStorage storage_of_all(const Model& model, const Target& target, const SessionOptions& options);

// Throws Error that names the entry point and the node if the target cannot run it. Weights are kept in parts if the entry point
// updates weights for which this pays, or if `are_stored` says that they already are. If `observe` is given, the plan is made
// from the last graph it saw.
CompiledEntry compile_entry(const Model& model, const std::string& entry, const Bindings& bindings,
                            const Target& target, const SessionOptions& options, bool are_stored = false,
                            const SnapshotObserver& observe = {});

// Returns the bytes of all states that the entry point reads or writes, as this rank stores them.
int64_t state_bytes(const CompiledEntry& compiled);
// Returns the bytes of the optimizer states that the entry point updates, as this rank stores them: whole or sharded.
int64_t optimizer_bytes(const CompiledEntry& compiled);

}  // namespace genesis
