#include "executor/distributed/traffic.h"

#include <fmt/format.h>

#include <algorithm>

#include "passes/core/match.h"
#include "schema/ops/collective/collective.h"
#include "schema/ops/collective/point_to_point.h"
#include "schema/ranks/mesh_groups.h"

namespace genesis {
namespace {

int64_t bytes_of(const std::vector<TensorType>& types) {
  int64_t bytes = 0;
  for (const TensorType& type : types) bytes += type.bytes();
  return bytes;
}

}  // namespace

int64_t bytes_sent(const Step& step, int64_t ranks) {
  if (has_peer(*step.op)) return bytes_of(step.input_types);
  const auto to_others = [&](int64_t whole) { return whole - whole / ranks; };
  if (passes::is<ops::AllReduce>(*step.op)) return 2 * to_others(bytes_of(step.output_types));
  return to_others(std::max(bytes_of(step.input_types), bytes_of(step.output_types)));
}

int64_t bytes_over_link(const Step& step, int64_t ranks) {
  return passes::is<ops::Recv>(*step.op) ? bytes_of(step.output_types) : bytes_sent(step, ranks);
}

std::vector<AxisTraffic> traffic_of(const Plan& plan, const Mesh& mesh) {
  std::vector<AxisTraffic> traffic;
  for (const std::string& name : group_names(mesh)) {
    AxisTraffic along{name, 0, 0};
    for (const Step& step : plan.steps) {
      if (axis_of(*step.op, step.attributes) != name) continue;
      ++along.calls;
      along.bytes += bytes_sent(step, mesh.size(name));
    }
    if (along.calls > 0) traffic.push_back(along);
  }
  return traffic;
}

std::string exchanges_along(std::string_view axis, const Plan& plan) {
  std::string lines;
  int number = 0;
  for (const Step& step : plan.steps)
    if (axis_of(*step.op, step.attributes) == axis && !has_peer(*step.op))
      lines += fmt::format("exchange {}: {} of {} tensors, {} to {} bytes\n", ++number, step.op->name(),
                           step.input_types.size(), bytes_of(step.input_types), bytes_of(step.output_types));
  return lines;
}

}  // namespace genesis
