#include "passes/fusion/fuse_cached_attention.h"

#include "passes/core/analysis.h"
#include "passes/core/rewriter.h"
#include "schema/ops/nn/attention.h"
#include "schema/ops/nn/cached_attention.h"
#include "schema/ops/tensor/create.h"
#include "schema/ops/tensor/slice.h"

namespace genesis::passes {
namespace {

bool is_zero(const Graph& graph, ValueId value) {
  if (const Node* node = producer(graph, value, "arange")) {
    const auto op = from_attributes<ops::Arange>(node->attributes);
    return op.length[0] == Dim(1) && op.start.as_double() == 0;
  }
  return uniform_value(graph, value) == 0.0;
}

// Whether the only element of `value` is that of `start`, plus `more`.
bool is_start_plus(const Graph& graph, ValueId value, ValueId start, double more) {
  if (value == start) return more == 0;
  const Node* node = producer(graph, value);
  if (!node || !(graph.type(value).shape.numel() == Dim(1))) return false;
  if (node->op->name() == "reshape" || node->op->name() == "expand")
    return is_start_plus(graph, node->inputs[0], start, more);
  if (node->op->name() != "add") return false;
  for (size_t i = 0; i < 2; ++i) {
    const ValueId other = node->inputs[1 - i];
    const bool fits = more == 0 ? is_zero(graph, other) : uniform_value(graph, other) == more;
    if (fits && is_start_plus(graph, node->inputs[i], start, 0)) return true;
  }
  return false;
}

// x, as rope rotated it or as it is.
struct Rotated {
  ValueId x;
  const Node* rope = nullptr;
};

Rotated before_rope(const Graph& graph, const Uses& uses, ValueId value, ValueId start) {
  const Node* node = sole_producer(graph, uses, value, "rope");
  if (!node || !is_start_plus(graph, node->inputs[1], start, 0)) return {value};
  const auto op = from_attributes<ops::Rope>(node->attributes);
  if (op.inverse || op.heads != 0) return {value};
  return {node->inputs[0], node};
}

// The update of a cache that one attention reads, and the graph's end.
const Node* cache_update(const Graph& graph, const Uses& uses, ValueId value) {
  const Node* node = producer(graph, value, "dynamic_update_slice");
  if (!node || from_attributes<ops::DynamicUpdateSlice>(node->attributes).axis != 1) return nullptr;
  return uses.readers(value).size() == 1 && uses.count(value) <= 2 ? node : nullptr;
}

struct Match {
  const Node *keys, *values;
  Rotated q, k;
  ops::CachedAttention op;
};

std::optional<Match> match(const Graph& graph, const Uses& uses, const Node& node) {
  if (node.op->name() != "attention" || node.outputs.size() != 1 || node.inputs.size() != 4)
    return std::nullopt;
  const auto rules = from_attributes<ops::Attention>(node.attributes);
  if (!rules.has_key_length || rules.has_mask || rules.packed() || rules.layout != AttentionLayout::kBTHD)
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
  found.op.scale = rules.scale;
  if (!found.q.rope || !found.k.rope || !(found.q.rope->attributes == found.k.rope->attributes)) {
    found.q = {node.inputs[0]};
    found.k = {keys->inputs[1]};
    return found;
  }
  const auto rope = from_attributes<ops::Rope>(found.q.rope->attributes);
  found.op.turns = true;
  found.op.theta = rope.theta;
  found.op.kind = rope.kind;
  found.op.rotary_size = rope.rotary_size;
  return found;
}

bool can_run(const Graph& graph, const Match& m, const PassContext& context) {
  if (!context.target->can_run) return true;
  std::vector<TensorType> inputs;
  for (ValueId id :
       {m.q.x, m.k.x, m.values->inputs[1], m.keys->inputs[0], m.values->inputs[0], m.keys->inputs[2]})
    inputs.push_back(graph.type(id));
  for (const TensorType& type : inputs)
    if (!type.shape.is_constant()) return false;
  const std::vector<TensorType> outputs = m.op.infer(inputs);
  return !context.target->can_run({*find_op("cached_attention"), to_attributes(m.op), inputs, outputs});
}

Replacement fuse(Rewriter& rewriter, const Uses& uses, const Node& node, const PassContext& context) {
  const Graph& graph = rewriter.old();
  const auto found = context.target ? match(graph, uses, node) : std::nullopt;
  if (!found || !can_run(graph, *found, context)) return std::nullopt;
  const auto& [keys, values, q, k, op] = *found;
  std::vector<const Node*> nodes = {keys, values, &node};
  if (q.rope) nodes.insert(nodes.begin(), {k.rope, q.rope});
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
