#include "passes/fusion/fuse_cached_attention.h"

#include "passes/core/match.h"
#include "passes/core/rewriter.h"
#include "schema/ops/elementwise/elementwise.h"
#include "schema/ops/nn/attention.h"
#include "schema/ops/nn/cached_attention.h"
#include "schema/ops/nn/rope.h"
#include "schema/ops/tensor/create.h"
#include "schema/ops/tensor/layout.h"
#include "schema/ops/tensor/reshape.h"
#include "schema/ops/tensor/slice.h"

namespace genesis::passes {
namespace {

bool is_zero(const Graph& graph, ValueId value) {
  if (const auto positions = match<ops::Arange>(graph, value))
    return positions->length[0] == Dim(1) && positions->start.as_double() == 0;
  return uniform_value(graph, value) == 0.0;
}

// Whether the only element of `value` is that of `start`, plus `more`.
bool is_start_plus(const Graph& graph, ValueId value, ValueId start, double more) {
  if (value == start) return more == 0;
  const Node* node = producer(graph, value);
  if (!node || !(graph.type(value).shape.numel() == Dim(1))) return false;
  if (is<ops::Reshape, ops::Expand>(*node)) return is_start_plus(graph, node->inputs[0], start, more);
  if (!is<ops::Add>(*node)) return false;
  for (const auto& [base, other] : either_way(*node)) {
    const bool fits = more == 0 ? is_zero(graph, other) : uniform_value(graph, other) == more;
    if (fits && is_start_plus(graph, base, start, 0)) return true;
  }
  return false;
}

// x, as rope rotated it or as it is.
struct Rotated {
  ValueId x;
  Matched<ops::Rope> rope;
};

Rotated before_rope(const Graph& graph, const Uses& uses, ValueId value, ValueId start) {
  const auto rope = match_sole<ops::Rope>(graph, uses, value);
  const bool fits =
      rope && is_start_plus(graph, rope.input(1), start, 0) && !rope->inverse && rope->heads == 0;
  return fits ? Rotated{rope.input(0), rope} : Rotated{value, {}};
}

// The update of a cache that one attention reads, and the graph's end.
const Node* cache_update(const Graph& graph, const Uses& uses, ValueId value) {
  const auto update = match<ops::DynamicUpdateSlice>(graph, value);
  if (!update || update->axis != 1) return nullptr;
  return uses.readers(value).size() == 1 && uses.count(value) <= 2 ? update.node : nullptr;
}

struct Match {
  const Node *keys, *values;
  Rotated q, k;
  ops::CachedAttention op;
};

std::optional<Match> find_match(const Graph& graph, const Uses& uses, const Node& node) {
  const auto rules = match<ops::Attention>(node);
  if (!rules || node.outputs.size() != 1 || node.inputs.size() != 4) return std::nullopt;
  if (!rules->has_key_length || rules->has_mask || rules->packed() || rules->layout != AttentionLayout::kBTHD)
    return std::nullopt;
  const Node *keys = cache_update(graph, uses, node.inputs[1]),
             *values = cache_update(graph, uses, node.inputs[2]);
  if (!keys || !values || keys == values || keys->inputs[2] != values->inputs[2]) return std::nullopt;
  const ValueId start = keys->inputs[2];
  if (!(graph.type(start) == TensorType{DType::i64, {}})) return std::nullopt;
  if (!(graph.type(node.inputs[0]).shape[1] == Dim(1)) || !(graph.type(keys->inputs[1]).shape[1] == Dim(1)))
    return std::nullopt;
  if (!is_start_plus(graph, node.inputs[3], start, 1)) return std::nullopt;
  Match found{keys,
              values,
              before_rope(graph, uses, node.inputs[0], start),
              before_rope(graph, uses, keys->inputs[1], start),
              {}};
  found.op.scale = rules->scale;
  const Matched<ops::Rope>&rope = found.q.rope, &key_rope = found.k.rope;
  if (!rope || !key_rope || !(rope.node->attributes == key_rope.node->attributes)) {
    found.q = {node.inputs[0], {}};
    found.k = {keys->inputs[1], {}};
    return found;
  }
  found.op.turns = true;
  found.op.theta = rope->theta;
  found.op.kind = rope->kind;
  found.op.rotary_size = rope->rotary_size;
  return found;
}

bool can_run(const Graph& graph, const Match& m, const PassContext& context) {
  std::vector<TensorType> inputs;
  for (ValueId id :
       {m.q.x, m.k.x, m.values->inputs[1], m.keys->inputs[0], m.values->inputs[0], m.keys->inputs[2]})
    inputs.push_back(graph.type(id));
  for (const TensorType& type : inputs)
    if (!type.shape.is_constant()) return false;
  const std::vector<TensorType> outputs = m.op.infer(inputs);
  const Target& target = *context.target;
  return target.runs(target.query(op_def<ops::CachedAttention>(), to_attributes(m.op), inputs, outputs));
}

Replacement fuse(Rewriter& rewriter, const Uses& uses, const Node& node, const PassContext& context) {
  const Graph& graph = rewriter.old();
  const auto found = context.target ? find_match(graph, uses, node) : std::nullopt;
  if (!found || !can_run(graph, *found, context)) return std::nullopt;
  const auto& [keys, values, q, k, op] = *found;
  std::vector<const Node*> nodes = {keys, values, &node};
  if (q.rope) nodes.insert(nodes.begin(), {k.rope.node, q.rope.node});
  rewriter.from_nodes(nodes);
  const auto made = cached_attention(rewriter.map(q.x), rewriter.map(k.x), rewriter.map(values->inputs[1]),
                                     rewriter.map(keys->inputs[0]), rewriter.map(values->inputs[0]),
                                     rewriter.map(keys->inputs[2]), op);
  rewriter.replace(keys->outputs[0], made[1]);
  rewriter.replace(values->outputs[0], made[2]);
  return {{made[0]}};
}

}  // namespace

Graph fuse_cached_attention(const Graph& graph, const PassContext& context) {
  const Uses uses(graph);
  return rewrite(graph,
                 [&](Rewriter& rewriter, const Node& node) { return fuse(rewriter, uses, node, context); });
}

}  // namespace genesis::passes
