#include "passes/distribution/passes.h"

#include <algorithm>
#include <map>

#include "passes/core/match.h"
#include "passes/core/rewriter.h"
#include "passes/core/stored_values.h"
#include "passes/distribution/optimizer_shards.h"
#include "schema/ops/collective/collective.h"
#include "schema/ops/elementwise/cast.h"
#include "schema/ops/tensor/reshape.h"

namespace genesis::passes {
namespace {

using Groups = std::map<int32_t, const StoredGroup*>;  // by their only member

class Gatherer {
 public:
  Gatherer(const Graph& graph, const PassContext& context, Groups shards)
      : graph_(graph), mesh_(context.mesh), shards_(std::move(shards)), rewriter_(graph) {}

  Graph run() {
    for (const Node& node : graph_.nodes()) {
      rewriter_.begin_nodes_from({&node});
      const bool is_cast = is<ops::Cast>(node) && group_of(node.inputs[0]);
      std::vector<Value> values;
      if (is_cast) values = {whole(node.inputs[0], graph_.type(node.outputs[0]).dtype)};
      if (!is_cast) read_whole(node.inputs);
      rewriter_.end_nodes_from();
      is_cast ? rewriter_.replace(node, values) : rewriter_.copy(node);
    }
    for (const NamedValue& output : graph_.outputs()) read_whole({output.value});
    for (const StateUpdate& update : graph_.updates()) read_whole({update.value});
    return without_dead_nodes(rewriter_.finish());
  }

 private:
  const StoredGroup* group_of(ValueId id) const {
    const auto at = shards_.find(state_of(graph_, id));
    return at == shards_.end() ? nullptr : at->second;
  }

  void read_whole(const std::vector<ValueId>& values) {
    for (const ValueId id : values)
      if (group_of(id)) rewriter_.replace(id, whole(id, graph_.type(id).dtype));
  }

  Value whole(ValueId weight, DType dtype) {
    Value& made = wholes_[{state_of(graph_, weight), dtype}];
    if (made) return made;
    const StoredGroup& group = *group_of(weight);
    const Value shard = shard_as(group, dtype);
    const std::string& axis = group.shard->axis;
    return made = reshape(all_gather(shard, axis, mesh_.size(axis)), graph_.type(weight).shape);
  }

  Value shard_as(const StoredGroup& group, DType dtype) {
    const auto part = [&](size_t i) { return rewriter_.graph().state(group.parts[i]); };
    return value_of_parts(*group.format, part, dtype);
  }

  const Graph& graph_;
  const Mesh& mesh_;
  const Groups shards_;
  Rewriter rewriter_;
  std::map<std::pair<int32_t, DType>, Value> wholes_;
};

}  // namespace

Graph gather_weights(const Graph& graph, const PassContext& context) {
  Groups shards;
  if (context.storage)
    for (const StoredGroup& group : context.storage->groups)
      if (is_weight_shard(graph.model(), group)) shards[group.members[0]] = &group;
  return shards.empty() ? graph.share() : Gatherer(graph, context, std::move(shards)).run();
}

}  // namespace genesis::passes
