// What the ranks of a mesh take and exchange: `MeshPlan` of tools/viz/page/data.d.ts.
#pragma once

#include <string>

#include "executor/session_options.h"
#include "schema/graph/model.h"
#include "schema/graph/plan.h"
#include "tools/viz/data/columns.h"

namespace genesis::viz {

// `sizes`: of one rank, `plan`: that of rank 0. The other ranks' plans are made here, those of the first 16.
Json mesh_data(const Model& model, const std::string& entry, const Bindings& sizes,
               const SessionOptions& session, const Plan& plan);

}  // namespace genesis::viz
