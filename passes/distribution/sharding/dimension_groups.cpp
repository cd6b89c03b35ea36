#include "passes/distribution/sharding/dimension_groups.h"

#include "passes/distribution/sharding/factors.h"

namespace genesis::passes {

DimensionGroups::DimensionGroups(const Graph& graph) {
  size_t count = 0;
  for (size_t i = 0; i < graph.values().size(); ++i) {
    first_.push_back(count);
    const int rank = graph.type(ValueId{static_cast<int32_t>(i)}).shape.rank();
    for (int dim = 0; dim < rank; ++dim) count = groups_.add() + 1;
  }
  for (const Node& node : graph.nodes())
    for (const Factor& factor : factors_of(graph, node)) {
      const auto element = [&](const FactorMember& member) {
        return of((member.is_result ? node.outputs : node.inputs)[member.index], member.dim);
      };
      for (const FactorMember& member : factor.members)
        groups_.join(element(factor.members[0]), element(member));
    }
}

}  // namespace genesis::passes
