// What a plan exchanges with other ranks, from the plan alone.
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
  // That each rank sends, and receives, in one run, where every byte takes the shortest way: of an all_reduce of n bytes
  // between r ranks 2 (r - 1) / r n, as rings and trees reach it.
  int64_t bytes = 0;
};

// Of one exchange between so many ranks; a recv sends none.
int64_t bytes_sent(const Step& exchange, int64_t ranks);
// Those that the exchange takes time for: what is sent, or of a recv what comes.
int64_t bytes_over_link(const Step& exchange, int64_t ranks);
// By axis of the mesh, in its order; axes along which nothing goes are left out.
std::vector<AxisTraffic> traffic_of(const Plan& plan, const Mesh& mesh);
// Every exchange along the axis between all of its ranks, a line each, in the order of the plan: what they must have alike.
std::string exchanges_along(std::string_view axis, const Plan& plan);

}  // namespace genesis
