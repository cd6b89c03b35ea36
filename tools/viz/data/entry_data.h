// An entry point as a page shows it: the author's graph, the result of each pass, the kernels, and the plan for one
// device and one set of sizes. It is `Entry` of tools/viz/page/data.d.ts.
#pragma once

#include "executor/session_options.h"
#include "schema/graph/model.h"
#include "schema/graph/plan.h"
#include "schema/messages/progress.h"
#include "tools/viz/data/measured_data.h"
#include "tools/viz/data/tables.h"

namespace genesis::viz {

struct EntryOptions {
  Bindings sizes;    // sizes of all symbols of the entry point
  Bindings assumed;  // the default sizes among them
  SessionOptions
      session;  // device, disabled passes, memory budget, mesh; with a mesh the memory of each rank is shown too
  bool sizes_are_of_rank = false;  // with a mesh: true if sizes are per rank, false if over all ranks
  bool passes = true;              // false: only the author's graph
  bool budgets = true;  // also plan training steps with less memory, which takes seconds for large models
  OnProgress progress = {};               // called with the current activity
  const Measurement* measured = nullptr;  // measurement of the plan; null: none
};

struct EntryData {
  Json json;
  Plan plan;  // without steps if planning failed; json["problem"] says why
};

// A graph that cannot be planned is no Error: the page says why. Sizes of the user with which it cannot be planned, or
// that the ranks of a mesh do not divide, are an Error.
EntryData entry_data(const Model& model, const Graph& entry, const EntryOptions& options, Tables& tables);

// Returns default sizes for the symbols missing in `given`: 128 for a length, 1 per rank for anything else.
Bindings assumed_sizes(const Model& model, const Bindings& given, int64_t ranks = 1);

}  // namespace genesis::viz
