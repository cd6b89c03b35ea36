// From an entry point of a model to a plan: bind, optimise, plan. Needs no device, only what passes know of
// one, so plans for a GPU can be made and looked at anywhere. Used by Session and by genesis-opt --check.
#pragma once

#include <memory>

#include "executor/session_options.h"
#include "passes/precision/weight_split.h"
#include "schema/graph/model.h"
#include "schema/graph/plan.h"
#include "schema/graph/target.h"

namespace genesis {

struct CompiledEntry {
  std::unique_ptr<Model> work;  // owns the constants that folding made
  Plan plan;
  passes::WeightSplit split;  // states whose halves the plan works with, which `work` has; empty: none
};

// Throws Error that names the entry point and the node when the target cannot run it. States are split where
// the entry point updates such as are worth it, or where they `are_split` already.
CompiledEntry compile_entry(const Model& model, const std::string& entry, const Bindings& bindings,
                            const Target& target, const SessionOptions& options, bool are_split = false);

}  // namespace genesis
