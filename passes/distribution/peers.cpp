#include "passes/distribution/peers.h"

#include <algorithm>
#include <iterator>

#include "schema/core/error.h"
#include "schema/ops/collective/collective.h"
#include "schema/ops/collective/point_to_point.h"
#include "schema/ranks/mesh_axes.h"
#include "schema/ranks/mesh_groups.h"

namespace genesis::passes {

void check_peers(const Graph& graph, const Mesh& mesh, int64_t rank) {
  for (const Node& node : graph.nodes()) {
    if (!has_peer(*node.op)) continue;
    const std::string_view axis = axis_of(*node.op, node.attributes);
    const int64_t ranks = mesh.size(axis), peer = peer_of(node.attributes), own = mesh.place(rank, axis);
    const auto refuse = [&](const std::string& why) {
      fail("node '{}' ({}) names the rank at place {} of '{}': {}", node.name, node.op->name(), peer, axis,
           why);
    };
    if (ranks == 1)
      refuse(fmt::format("this run has one rank there, and it takes two: give a mesh with {}={} or more",
                         axis, std::max<int64_t>(2, peer + 1)));
    if (peer >= ranks)
      refuse(fmt::format("the mesh ({}) has places 0 to {} there", mesh.to_string(), ranks - 1));
    if (peer == own) refuse("this is the rank itself, which cannot wait for itself");
  }
}

void check_axes(const Model& model, const Mesh& mesh) {
  constexpr std::string_view kShared[] = {
      kDataAxis, kExpertAxis, kTensorAxis,
      kPipelineAxis};  // passes split work along these, whatever the model names
  const auto is_named = [&](const MeshAxis& axis) {
    for (const auto& entry : model.entries())
      for (const Node& node : entry->nodes())
        if (axis_of(*node.op, node.attributes) == axis.name) return true;
    return std::find(std::begin(kShared), std::end(kShared), axis.name) != std::end(kShared);
  };
  for (const MeshAxis& axis : mesh.axes())
    if (axis.size > 1 && !is_named(axis))
      fail(
          "mesh '{}': its {} ranks along '{}' would all do the same, for no node of the model names that "
          "mesh axis; without being named, data, expert, tensor and pipeline share work",
          mesh.to_string(), axis.size, axis.name);
}

}  // namespace genesis::passes
