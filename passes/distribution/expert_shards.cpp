#include "passes/distribution/expert_shards.h"

#include <fmt/ranges.h>

#include <vector>

#include "passes/core/match.h"
#include "passes/core/update_inputs.h"
#include "schema/ops/elementwise/cast.h"
#include "schema/ops/nn/grouped_matmul.h"
#include "schema/ranks/mesh_axes.h"
#include "schema/ranks/mesh_groups.h"

namespace genesis::passes {
namespace {

// Returns the state that is read, possibly cast; -1 if the value is none.
int32_t state_behind_casts(const Graph& graph, ValueId value) {
  while (const auto cast = match<ops::Cast>(graph, value)) value = cast.input(0);
  return state_of(graph, value);
}

void add_weights(const Graph& graph, std::set<int32_t>& states) {
  for (const Node& node : graph.nodes())
    if (is<ops::GroupedMatmul>(node))
      if (const int32_t state = state_behind_casts(graph, node.inputs[1]); state >= 0) states.insert(state);
}

void add_moments(const Graph& graph, std::set<int32_t>& states) {
  for (const Node& node : graph.nodes()) {
    const UpdateInputs inputs = update_inputs(node);
    if (inputs.moments.empty() || !states.contains(state_of(graph, node.inputs[inputs.parameter]))) continue;
    for (const size_t moment : inputs.moments)
      if (const int32_t state = state_of(graph, node.inputs[moment]); state >= 0) states.insert(state);
  }
}

void check_number(const State& state, const Mesh& mesh) {
  const int64_t experts = state.type.shape[0].value(), ranks = mesh.size(kExpertShardAxis);
  if (experts % ranks == 0) return;
  std::vector<int64_t> would_do;
  for (int64_t i = 2; i <= experts; ++i)
    if (experts % i == 0) would_do.push_back(i);
  fail(
      "mesh '{}': {} ranks along 'expert' and 'tensor' cannot share the {} experts of '{}': take {} ranks, "
      "such as expert={}",
      mesh.to_string(), ranks, experts, state.name, fmt::join(would_do, ", "), would_do.back());
}

}  // namespace

std::set<int32_t> states_of_experts(const Model& model) {
  std::set<int32_t> states;
  for (const auto& entry : model.entries()) add_weights(*entry, states);
  for (const auto& entry : model.entries()) add_moments(*entry, states);
  return states;
}

StateStorage find_expert_shards(const Model& model, const Mesh& mesh, int64_t rank) {
  if (mesh.size(kExpertAxis) == 1) return {};
  if (mesh.size(kPipelineAxis) > 1)
    fail("mesh '{}': 'expert' and 'pipeline' cannot be combined yet: give one of them, with data",
         mesh.to_string());
  const int64_t ranks = mesh.size(kExpertShardAxis), place = mesh.place(rank, kExpertShardAxis);
  StateStorage storage;
  for (const int32_t index : states_of_experts(model)) {
    const State& state = model.state(index);
    check_number(state, mesh);
    Shape shape = state.type.shape;
    shape[0] = Dim(shape[0].value() / ranks);
    const int64_t count = state.type.numel() / ranks;
    storage.groups.push_back({plain_format(state.type.dtype),
                              {index},
                              {},
                              Shard{kExpertShardAxis, place * count, count, 1, shape}});
  }
  if (storage.groups.empty())
    fail("mesh '{}': this model has no experts that ranks along 'expert' could share: give data or tensor",
         mesh.to_string());
  number_parts(storage, model.states().size());
  return storage;
}

}  // namespace genesis::passes
