// Converts the memory and the exchanges of a mesh's ranks to `MeshPlan` of tools/viz/page/data.d.ts.
#pragma once

#include <string>

#include "executor/session_options.h"
#include "schema/graph/model.h"
#include "schema/graph/plan.h"
#include "tools/viz/data/columns.h"

namespace genesis::viz {

// `sizes` are of one rank and `plan` is the plan of rank 0. The plans of the other ranks, up to the first 16 ranks,
// are made here.
Json mesh_data(const Model& model, const std::string& entry, const Bindings& sizes,
               const SessionOptions& session, const Plan& plan);

}  // namespace genesis::viz
