// Pictures that are not graphs, as SVG: a loss curve, and memory over the steps of a plan.
#pragma once

#include <string>
#include <vector>

#include "schema/graph/plan.h"
#include "tools/viz/data/inputs.h"

namespace genesis::viz {

// `reference` draws a dashed line with its name (a baseline); NaN: none.
std::string curve_svg(const Curve& curve, const std::string& title, double reference,
                      const std::string& reference_name);

// Every block of the arena as a rectangle: from its first to its last step, at its offset. No two overlap.
std::string memory_svg(const Plan& plan);

}  // namespace genesis::viz
