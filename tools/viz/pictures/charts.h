// Draws charts as SVG: a loss curve, memory over the steps of a plan, and memory of the ranks of a mesh.
#pragma once

#include <string>

#include "schema/graph/plan.h"
#include "tools/viz/data/columns.h"
#include "tools/viz/files/inputs.h"

namespace genesis::viz {

// Draws the smoothed loss of each step, and the losses of evaluations if there are any. `reference` draws a dashed
// line with its name (a baseline); NaN: none.
std::string losses_svg(const Losses& losses, const std::string& title, double reference,
                       const std::string& reference_name);

// Draws every arena block as a rectangle from its first to its last step, at its offset. No two overlap. Large ones
// show their names. The fullest step is marked, and the memory alive there is summed by layer.
std::string memory_svg(const Plan& plan);

// Draws the memory of each rank as bars. `mesh`: the result of mesh_data().
std::string ranks_svg(const std::string& entry, const Json& mesh);

}  // namespace genesis::viz
