// Computes what a plan exchanges with other ranks.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "schema/graph/plan.h"
#include "schema/ranks/mesh.h"

namespace genesis {

struct AxisTraffic {
  std::string axis;
  int64_t calls = 0;
  // Bytes that each rank sends, and also receives, in one run, with optimal algorithms: an all_reduce of n bytes between r ranks
  // counts 2 (r - 1) / r n, as rings and trees reach it.
  int64_t bytes = 0;
};

// Returns the bytes that a rank sends in one exchange between `ranks` ranks; a recv sends none.
int64_t bytes_sent(const Step& exchange, int64_t ranks);
// Returns the bytes that determine the duration of the exchange: those sent, or those received by a recv.
int64_t bytes_over_link(const Step& exchange, int64_t ranks);
// Returns the traffic by mesh axis, in the mesh's order, without axes that have none.
std::vector<AxisTraffic> traffic_of(const Plan& plan, const Mesh& mesh);
// Describes every exchange between all ranks of the axis, one line each in the plan's order. The text must be the same on all of
// them.
std::string exchanges_along(std::string_view axis, const Plan& plan);

}  // namespace genesis
