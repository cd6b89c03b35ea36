#include "passes/fusion/passes.h"

#include "passes/core/match.h"
#include "passes/core/rewriter.h"
#include "schema/ops/create.h"
#include "schema/ops/elementwise/elementwise.h"
#include "schema/ops/nn/attention.h"
#include "schema/ops/nn/cached_attention.h"
#include "schema/ops/nn/rope.h"
#include "schema/ops/tensor/dynamic_slice.h"
#include "schema/ops/tensor/layout.h"
#include "schema/ops/tensor/reshape.h"

namespace genesis::passes {
namespace {

bool is_zero(const Graph& graph, ValueId value) {
  if (const auto positions = match<ops::Arange>(graph, value))
    return positions->length[0] == Dim(1) && positions->start.as_double() == 0;
  return uniform_value(graph, value) == 0.0;
}

// Returns whether `value` equals `start` plus `more`, reshaped or expanded; `start` is one number or one per row.
bool is_start_plus(const Graph& graph, ValueId value, ValueId start, double more) {
  if (value == start) return more == 0;
  const Node* node = producer(graph, value);
  if (!node || !(graph.type(value).shape.numel() == graph.type(start).shape.numel())) return false;
  if (is<ops::Reshape, ops::Expand>(*node)) return is_start_plus(graph, node->inputs[0], start, more);
  if (!is<ops::Add>(*node)) return false;
  for (const auto& [base, other] : either_way(*node)) {
    const bool fits = more == 0 ? is_zero(graph, other) : uniform_value(graph, other) == more;
    if (fits && is_start_plus(graph, base, start, 0)) return true;
  }
  return false;
}

// The x of rope(x) with that rope, or a value without rope.
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

// Returns the update of a cache along the time axis that one attention reads and that is at most an output or a state update
// besides; null for other values.
const Node* cache_update(const Graph& graph, const Uses& uses, ValueId value) {
  const auto update = match<ops::DynamicUpdateSlice>(graph, value);
  if (!update || update->axis != 1 || update.num_inputs() != 3) return nullptr;
  return uses.readers(value).size() == 1 && uses.count(value) <= 2 ? update.node : nullptr;
}

struct Match {
  const Node *keys, *values;
  Rotated q, k;
  ops::CachedAttention op;

  // Returns the op's inputs: q, k, v, both caches, start [, frequencies].
  std::vector<ValueId> inputs() const {
    std::vector<ValueId> ids = {
        q.x, k.x, values->inputs[1], keys->inputs[0], values->inputs[0], keys->inputs[2]};
    if (q.rope && q.rope.num_inputs() > 2) ids.push_back(q.rope.input(2));
    return ids;
  }
};

// Returns whether `start` is one scalar, or one number for each row of q.
bool is_start(const TensorType& start, const TensorType& q) {
  return start == TensorType{DType::i64, {}} || start == TensorType{DType::i64, {q.shape[0]}};
}

// Returns whether both are rotated by ropes with equal attributes and frequencies.
bool rotated_alike(const Rotated& q, const Rotated& k) {
  if (!q.rope || !k.rope || !(q.rope.node->attributes == k.rope.node->attributes)) return false;
  if (q.rope.num_inputs() != k.rope.num_inputs()) return false;
  return q.rope.num_inputs() < 3 || q.rope.input(2) == k.rope.input(2);
}

std::optional<Match> find_match(const Graph& graph, const Uses& uses, const Node& node) {
  const auto rules = match<ops::Attention>(node);
  if (!rules || node.outputs.size() != 1 || node.inputs.size() != 4) return std::nullopt;
  if (!rules->has_key_length || rules->has_mask || rules->has_key_start || rules->packed() ||
      rules->layout != AttentionLayout::kBTHD)
    return std::nullopt;
  const Node *keys = cache_update(graph, uses, node.inputs[1]),
             *values = cache_update(graph, uses, node.inputs[2]);
  if (!keys || !values || keys == values || keys->inputs[2] != values->inputs[2]) return std::nullopt;
  const ValueId start = keys->inputs[2];
  if (!is_start(graph.type(start), graph.type(node.inputs[0]))) return std::nullopt;
  if (!(graph.type(node.inputs[0]).shape[1] == Dim(1)) || !(graph.type(keys->inputs[1]).shape[1] == Dim(1)))
    return std::nullopt;
  if (!is_start_plus(graph, node.inputs[3], start, 1)) return std::nullopt;
  Match found{keys,
              values,
              before_rope(graph, uses, node.inputs[0], start),
              before_rope(graph, uses, keys->inputs[1], start),
              {}};
  found.op.scale = rules->scale;
  found.op.window = rules->window;
  const Matched<ops::Rope>& rope = found.q.rope;
  if (!rotated_alike(found.q, found.k)) {
    found.q = {node.inputs[0], {}};
    found.k = {keys->inputs[1], {}};
    return found;
  }
  found.op.rotates = true;
  found.op.theta = rope->theta;
  found.op.kind = rope->kind;
  found.op.rotary_size = rope->rotary_size;
  return found;
}

bool can_run_match(const Graph& graph, const Match& m, const PassContext& context) {
  std::vector<TensorType> inputs;
  for (ValueId id : m.inputs()) inputs.push_back(graph.type(id));
  for (const TensorType& type : inputs)
    if (!type.shape.is_constant()) return false;
  const std::vector<TensorType> outputs = m.op.infer(inputs);
  const Target& target = *context.target;
  return target.runs(target.query(op_def<ops::CachedAttention>(), to_attributes(m.op), inputs, outputs));
}

Replacement fuse(Rewriter& rewriter, const Uses& uses, const Node& node, const PassContext& context) {
  const Graph& graph = rewriter.old();
  const auto found = context.target ? find_match(graph, uses, node) : std::nullopt;
  if (!found || !can_run_match(graph, *found, context)) return std::nullopt;
  const auto& [keys, values, q, k, op] = *found;
  std::vector<const Node*> nodes = {keys, values, &node};
  if (q.rope) nodes.insert(nodes.begin(), {k.rope.node, q.rope.node});
  rewriter.from_nodes(nodes);
  std::vector<Value> inputs;
  for (ValueId id : found->inputs()) inputs.push_back(rewriter.map(id));
  const auto made = emit_node(op, inputs);
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
