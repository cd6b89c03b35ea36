// Pictures that are not graphs, as SVG: a loss curve, memory over the steps of a plan, memory of the ranks of a mesh.
#pragma once

#include <string>

#include "schema/graph/plan.h"
#include "tools/viz/data/columns.h"
#include "tools/viz/files/inputs.h"

namespace genesis::viz {

// The loss of each step, smoothed, and that of evaluations where there are any. `reference` draws a dashed line with its name
// (a baseline); NaN: none.
std::string losses_svg(const Losses& losses, const std::string& title, double reference,
                       const std::string& reference_name);

// Every block of the arena as a rectangle: from its first to its last step, at its offset. No two overlap. Large ones have
// their names, the fullest step is marked, and what is alive there is summed up by layer.
std::string memory_svg(const Plan& plan);

// What each rank holds, as bars. `mesh`: of mesh_data().
std::string ranks_svg(const std::string& entry, const Json& mesh);

}  // namespace genesis::viz
