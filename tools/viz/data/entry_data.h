// An entry point of a model as a page shows it: the author's graph, what each pass makes of it, the kernels and the
// plan for one device and one set of sizes. `Entry` of tools/viz/page/data.d.ts.
#pragma once

#include "executor/session_options.h"
#include "schema/graph/model.h"
#include "schema/graph/plan.h"
#include "schema/messages/progress.h"
#include "tools/viz/data/measured_data.h"
#include "tools/viz/data/tables.h"

namespace genesis::viz {

struct EntryOptions {
  Bindings sizes;    // of all symbols of the entry point
  Bindings assumed;  // those of them that nobody gave
  SessionOptions
      session;  // device, passes to leave out, memory budget, mesh: what each rank takes is then shown too
  bool sizes_are_of_rank = false;  // with a mesh: else they are of all ranks together
  bool passes = true;              // off: the author's graph alone
  bool budgets = true;  // plans of training steps under less memory, which take some seconds for large ones
  OnProgress progress = {};               // is told what is being done
  const Measurement* measured = nullptr;  // of the plan; null: nothing was
};

struct EntryData {
  Json json;
  Plan plan;  // no steps: there is none, and json["problem"] says why
};

// A graph that cannot be planned is no Error: the page says why. A batch that the ranks of a mesh do not divide is one.
EntryData entry_data(const Model& model, const Graph& entry, const EntryOptions& options, Tables& tables);

// Sizes for the symbols that `given` has none of, as examples: 128 for a length, 1 for each rank for anything else.
Bindings assumed_sizes(const Model& model, const Bindings& given, int64_t ranks = 1);

}  // namespace genesis::viz
