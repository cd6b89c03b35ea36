#include "passes/memory/passes.h"

#include <algorithm>
#include <map>
#include <set>

#include "passes/core/match.h"
#include "passes/core/rewriter.h"
#include "schema/ops/collective/collective.h"
#include "schema/ops/collective/point_to_point.h"
#include "schema/ops/nn/batch_norm.h"
#include "schema/ops/nn/norm.h"
#include "schema/ops/nn/swiglu.h"
#include "schema/ops/tensor/reshape.h"
#include "schema/ranks/mesh_axes.h"

namespace genesis::passes {
namespace {

// A gradient that recomputes `output`, and the readers that read it from there. If the output is a shard of rows, readers need
// the gathered rows; `repeated` are the nodes that gather them again.
struct Again {
  NodeId gradient;
  const Node* forward;
  ValueId output;
  std::vector<NodeId> readers = {};
  std::vector<const Node*> repeated = {};
};

bool is_set(const Node& node, std::string_view attribute) {
  const AttrValue* value = node.attributes.find(attribute);
  return value && std::get<bool>(*value);
}

// Returns the op whose output a gradient can recompute; null for other nodes.
const OpDef* forward_op(const Node& node) {
  if (is<ops::SwigluGrad>(node)) return &op_def<ops::Swiglu>();
  if (is<ops::RmsNormGrad>(node)) return &op_def<ops::RmsNorm>();
  // Batch norms with a relu behind them, in the layout whose kernels write at the speed of memory.
  if (const auto norm = match<ops::BatchNormGrad>(node))
    return norm->relu && !norm->has_addend && norm->channels_last ? &op_def<ops::BatchNorm>() : nullptr;
  return is<ops::LayerNormGrad>(node) ? &op_def<ops::LayerNorm>() : nullptr;
}

bool is_gradient(const Node& node) { return forward_op(node) && !is_set(node, "with_output"); }

// Returns the inputs of the forward node that its gradient reads: all but dy for swiglu, x and weight for a norm, and the bias of a
// batch norm.
std::vector<ValueId> forward_inputs(const Node& gradient) {
  if (is<ops::BatchNormGrad>(gradient)) return {gradient.inputs[0], gradient.inputs[4], gradient.inputs[5]};
  std::vector<ValueId> inputs = gradient.inputs;
  if (is<ops::SwigluGrad>(gradient))
    inputs.pop_back();
  else
    inputs = {gradient.inputs[0]};
  if (is_set(gradient, "has_weight")) inputs.push_back(gradient.inputs[2]);
  return inputs;
}

// Returns whether both are norms over the same axes with the same eps.
bool is_alike(const Node& forward, const Node& gradient) {
  for (const char* name : {"eps", "num_axes", "has_weight", "relu", "has_addend", "channels_last"}) {
    const AttrValue *a = forward.attributes.find(name), *b = gradient.attributes.find(name);
    if (a && b ? *a != *b : a != b) return false;
  }
  return true;
}

// Returns the node that `gradient` differentiates; null if there is none.
const Node* forward_of(const Graph& graph, const Uses& uses, const Node& gradient) {
  const std::vector<ValueId> inputs = forward_inputs(gradient);
  for (NodeId id : uses.readers(inputs[0])) {
    const Node& node = graph.node(id);
    const bool same_inputs =
        node.inputs.size() >= inputs.size() && std::equal(inputs.begin(), inputs.end(), node.inputs.begin());
    if (node.op == forward_op(gradient) && same_inputs && is_alike(node, gradient)) return &node;
  }
  return nullptr;
}

// Returns the values of outputs and updates.
std::set<ValueId> kept_values(const Graph& graph) {
  std::set<ValueId> kept;
  for (const NamedValue& output : graph.outputs()) kept.insert(output.value);
  for (const StateUpdate& update : graph.updates()) kept.insert(update.value);
  return kept;
}

// Returns whether the node gathers the rows of all ranks along "tensor" (passes/distribution/sequence_shards.cpp).
bool is_gather(const Node& node) {
  const auto gather = match<ops::AllGather>(node);
  return gather && gather->axis == kTensorAxis && node.inputs.size() == 1;
}

// Adds only readers that no gradient depends on: so no two gradients can wait for each other.
void add_readers(const Graph& graph, const Uses& uses, const std::vector<bool>& needed, ValueId value,
                 bool is_gathered, Again& again) {
  for (const NodeId reader : uses.readers(value)) {
    const Node& node = graph.node(reader);
    if (!needed[static_cast<size_t>(reader.index)]) {
      if (value == again.output || is_gathered) again.readers.push_back(reader);
    } else if (is_gather(node) || (!is_gathered && is<ops::Reshape>(node))) {
      const size_t readers = again.readers.size(), repeated = again.repeated.size();
      again.repeated.push_back(&node);
      add_readers(graph, uses, needed, node.outputs[0], is_gathered || is_gather(node), again);
      if (again.readers.size() == readers) again.repeated.resize(repeated);
    }
  }
}

std::vector<Again> find(const Graph& graph, const Uses& uses) {
  const std::vector<bool> live = live_nodes(graph);
  std::vector<NodeId> gradients, awaited;  // gradients and nodes that another rank waits for
  for (size_t i = 0; i < live.size(); ++i) {
    const NodeId id{static_cast<int32_t>(i)};
    const bool is_one = live[i] && is_gradient(graph.node(id));
    if (is_one) gradients.push_back(id);
    if (is_one || has_peer(*graph.node(id).op)) awaited.push_back(id);
  }
  const std::vector<bool> needed = needed_by(graph, awaited);
  const std::set<ValueId> kept = kept_values(graph);
  std::vector<Again> found;
  std::set<ValueId> taken;
  for (NodeId id : gradients) {
    const Node* forward = forward_of(graph, uses, graph.node(id));
    if (!forward || kept.contains(forward->outputs[0])) continue;
    Again again{id, forward, forward->outputs[0]};
    add_readers(graph, uses, needed, again.output, false, again);
    if (!again.readers.empty() && taken.insert(again.output).second) found.push_back(std::move(again));
  }
  return found;
}

// Returns the nodes in their order, except for readers that must wait for a later gradient.
std::vector<NodeId> order_of(const Graph& graph, const std::vector<Again>& all) {
  std::vector<NodeId> nodes;
  std::vector<Precedence> precedences = order_of_exchanges(graph);
  for (size_t i = 0; i < graph.nodes().size(); ++i) {
    nodes.push_back({static_cast<int32_t>(i)});
    for (ValueId input : graph.nodes()[i].inputs)
      if (const NodeId maker = graph.value(input).producer; maker.index >= 0)
        precedences.emplace_back(maker, nodes.back());
  }
  for (const Again& again : all)
    for (NodeId reader : again.readers) precedences.emplace_back(again.gradient, reader);
  return in_order(nodes, precedences);
}

// Emits the gradient with the output of `forward` as an additional result.
Value emit_gradient(Rewriter& rewriter, const Node& gradient, const Node& forward) {
  std::vector<Value> inputs = rewriter.map(gradient.inputs);
  Attributes attributes = gradient.attributes;
  attributes.set("with_output", true);
  if (is_set(forward, "has_bias")) {
    const bool weight = is_set(gradient, "has_weight");
    attributes.set("has_bias", true);
    inputs.insert(inputs.begin() + (weight ? 3 : 2), rewriter.map(forward.inputs[weight ? 2 : 1]));
  }
  rewriter.begin_nodes_from({&gradient});
  const std::vector<Value> outputs =
      rewriter.graph().add_node(*gradient.op, attributes, inputs, gradient.name);
  rewriter.end_nodes_from();
  rewriter.replace(gradient, outputs);
  return outputs.back();
}

}  // namespace

Graph recompute_outputs(const Graph& graph, const PassContext&) {
  const Uses uses(graph);
  const std::vector<Again> all = find(graph, uses);
  std::map<NodeId, const Again*> made;  // by gradient
  for (const Again& again : all) made[again.gradient] = &again;
  Rewriter rewriter(graph);
  for (NodeId id : order_of(graph, all)) {
    const auto at = made.find(id);
    if (at == made.end()) {
      rewriter.copy(graph.node(id));
      continue;
    }
    const Again& again = *at->second;
    rewriter.replace(again.output, emit_gradient(rewriter, graph.node(id), *again.forward));
    for (const Node* node : again.repeated) rewriter.copy(*node);
  }
  return rewriter.finish();
}

}  // namespace genesis::passes
