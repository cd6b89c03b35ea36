// Weights of a bf16 training step that are kept as halves (schema/core/halves.h): the upper half is the bf16 that
// products read, and the optimizer writes both. So no step casts weights, and no memory holds a second copy
// of them. Weights that a concatenation of casts joins (merge_projections) lie one behind the other in one
// pair of states, and the concatenation is that state.
//
// The states of a model belong to all its entry points, so which weights are split is a question about the
// model, asked where the memory is made (executor/compile). In files and for everybody else states stay what
// they are. passes/precision/split_weights rewrites entry points for such memory.
#pragma once

#include <map>
#include <vector>

#include "schema/graph/model.h"
#include "schema/ops/nn/optimizer.h"

namespace genesis::passes {

struct SplitGroup {
  std::vector<int32_t> members;    // f32 states, one behind the other along their first axis
  int32_t upper = -1, lower = -1;  // states: bf16, and i16 with the bits that bf16 has no room for
};

struct WeightSplit {
  std::vector<SplitGroup> groups;

  bool empty() const { return groups.empty(); }
};

// What pays: weights that Adam updates in every entry point that updates them, and that these read as bf16
// otherwise. `upper` and `lower` are states that add_halves() will add.
WeightSplit find_split(const Model& model);
void add_halves(Model& model, const WeightSplit& split);

// Whether the graph updates a state that is split.
bool updates_halves(const Graph& graph, const WeightSplit& split);

// What finding a split and rewriting for it ask of a graph.

bool casts_to_bf16(const Graph& graph, const Node& node);
// The state that a value is; -1: none.
int32_t state_of(const Graph& graph, ValueId id);
// Of a concatenation along the first axis: the states whose casts to bf16 it joins, -1 for what is none.
// Empty for other nodes.
std::vector<int32_t> joined_states(const Graph& graph, const Node& node);
// By state that could be split and that the graph updates: the adam_update that alone makes its new value out
// of its old one and whose results nobody else reads; null: something else does.
std::map<int32_t, const Node*> adam_updates(const Graph& graph);

// What updates that are one node have in common.
struct SharedByUpdates {
  std::vector<ValueId> scalars;  // lr, step, [scale]
  ops::AdamUpdate op;            // without weight decay

  explicit SharedByUpdates(const Node& adam_update);
  bool has_scale() const { return scalars.size() > 2; }
  bool operator==(const SharedByUpdates& other) const;
};

}  // namespace genesis::passes
