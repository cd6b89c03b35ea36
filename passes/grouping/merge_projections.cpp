#include "passes/grouping/passes.h"

#include <algorithm>
#include <optional>

#include "passes/grouping/head_operands.h"
#include "schema/graph/model.h"
#include "schema/ops/create.h"
#include "schema/ops/elementwise/cast.h"
#include "schema/ops/elementwise/elementwise.h"
#include "schema/ops/nn/matmul.h"
#include "schema/ops/nn/swiglu.h"
#include "schema/ops/tensor/slice.h"

namespace genesis::passes {
namespace {

// The nodes that LoRA adds to a layer (passes/lora/lora.h): up(down(x) * scale) + the layer.
struct Adapter {
  const Node *down = nullptr, *up = nullptr;  // both linear
  ValueId scale;
};

struct Layer {
  const Node* product = nullptr;  // linear
  std::optional<Adapter> adapter;
};
using Layers = std::vector<Layer>;

// Returns whether the value is the cast of a state, with a single reader.
bool is_own_cast(const Graph& graph, const Uses& uses, ValueId value) {
  const auto cast = match_sole<ops::Cast>(graph, uses, value);
  return cast && graph.value(cast.input(0)).kind == ValueKind::kState;
}

bool is_frozen(const Graph& graph, ValueId value) {
  const ValueInfo& info = graph.value(value);
  return info.kind == ValueKind::kState && !graph.model().state(info.index).trainable;
}

// Returns whether the layer is a single product without an activation.
bool is_plain(const Matched<ops::Linear>& layer) {
  return layer && layer->is_plain() && layer->activation == Activation::kNone;
}

// Returns whether the layer's weight and bias can be concatenated with others: each is a copy that is made anyway (a cast), or,
// for a layer with an adapter, a frozen state.
bool may_merge(const Graph& graph, const Uses& uses, const Matched<ops::Linear>& layer, bool frozen) {
  if (!is_plain(layer) || layer->has_addend) return false;
  return std::all_of(layer.node->inputs.begin() + 1, layer.node->inputs.end(), [&](ValueId input) {
    return is_own_cast(graph, uses, input) || (frozen && is_frozen(graph, input));
  });
}

// Returns the value before all casts.
ValueId before_casts(const Graph& graph, ValueId value) {
  while (const auto cast = match<ops::Cast>(graph, value)) value = cast.input(0);
  return value;
}
// Returns the same, or nothing if a value on the way has other readers.
std::optional<ValueId> before_own_casts(const Graph& graph, const Uses& uses, ValueId value) {
  while (uses.single(value)) {
    const auto cast = match<ops::Cast>(graph, value);
    if (!cast) return value;
    value = cast.input(0);
  }
  return std::nullopt;
}

// Returns the product and the adapter that `up` sums.
std::optional<Layer> match_adapted(const Graph& graph, const Uses& uses, const Matched<ops::Linear>& up) {
  if (!is_plain(up) || up.num_inputs() != 3 || !is_own_cast(graph, uses, up.input(1))) return std::nullopt;
  const auto scaled = match_sole<ops::Mul>(graph, uses, up.input(0));
  const auto product_value = before_own_casts(graph, uses, up.input(2));
  if (!scaled || !product_value) return std::nullopt;
  const auto product = match<ops::Linear>(graph, *product_value);
  if (!may_merge(graph, uses, product, true)) return std::nullopt;
  for (const auto& [down_value, scale] : either_way(*scaled.node)) {
    const auto down = match_sole<ops::Linear>(graph, uses, down_value);
    if (!may_merge(graph, uses, down, false) || down.num_inputs() != 2 || !match<ops::Full>(graph, scale))
      continue;
    if (before_casts(graph, down.input(0)) != before_casts(graph, product.input(0))) continue;
    return Layer{product.node, Adapter{down.node, up.node, scale}};
  }
  return std::nullopt;
}

std::optional<Layer> match_layer(const Graph& graph, const Uses& uses, ValueId value) {
  const auto made = before_own_casts(graph, uses, value);
  if (!made) return std::nullopt;
  const auto layer = match<ops::Linear>(graph, *made);
  if (layer && layer->has_addend) return match_adapted(graph, uses, layer);
  if (*made != value || !may_merge(graph, uses, layer, false)) return std::nullopt;
  return Layer{layer.node, std::nullopt};
}

// Returns whether both read the same x, and both or neither have a bias, and likewise an adapter.
bool are_alike(const Layer& a, const Layer& b) {
  if (a.product->inputs[0] != b.product->inputs[0] || a.product->inputs.size() != b.product->inputs.size())
    return false;
  if (a.adapter.has_value() != b.adapter.has_value()) return false;
  return !a.adapter ||
         (a.adapter->down->inputs[0] == b.adapter->down->inputs[0] && a.adapter->scale == b.adapter->scale);
}

// Returns the layers that make `values` if they can become one: the same x, all or none with a bias, all or none with an
// adapter.
Layers match_layers(const Graph& graph, const Uses& uses, const std::vector<ValueId>& values) {
  Layers layers;
  for (ValueId value : values) {
    const auto layer = match_layer(graph, uses, value);
    if (!layer || (!layers.empty() && !are_alike(layers[0], *layer))) return {};
    layers.push_back(*layer);
  }
  return layers;
}

Value beside_each_other(Rewriter& rewriter, const Layers& layers, size_t input) {
  if (input >= layers[0].product->inputs.size()) return {};
  std::vector<Value> parts;
  for (const Layer& layer : layers) parts.push_back(rewriter.map(layer.product->inputs[input]));
  return concat(parts, 0);
}

// Returns the second weights of all adapters as one block-diagonal weight, which reads the concatenated results of the first
// weights.
Value diagonal_of(const std::vector<Value>& blocks) {
  int64_t columns = 0, before = 0;
  for (const Value& block : blocks) columns += block.shape()[1].value();
  std::vector<Value> rows;
  for (const Value& block : blocks) {
    const int64_t own = block.shape()[1].value();
    rows.push_back(pad(block, {0, before}, {0, columns - before - own}));
    before += own;
  }
  return concat(rows, 0);
}

Value add_adapters(Rewriter& rewriter, const Layers& layers, Value sum) {
  std::vector<Value> down, up;
  for (const Layer& layer : layers) {
    down.push_back(rewriter.map(layer.adapter->down->inputs[1]));
    up.push_back(rewriter.map(layer.adapter->up->inputs[1]));
  }
  const Adapter& first = *layers[0].adapter;
  const Value scaled =
      linear(rewriter.map(first.down->inputs[0]), concat(down, 0)) * rewriter.map(first.scale);
  const DType dtype = rewriter.old().type(first.up->outputs[0]).dtype;
  return linear(scaled, diagonal_of(up), {}, Activation::kNone, cast(sum, dtype));
}

// Names the product after `reader`: a name from one of the layers would be mistaken for that layer.
Value merged(Rewriter& rewriter, const Layers& layers, const Node& reader, DType dtype) {
  std::vector<const Node*> from;
  for (const Layer& layer : layers) from.push_back(layer.product);
  from.push_back(&reader);
  rewriter.from_nodes(from);
  const Value weight = beside_each_other(rewriter, layers, 1), bias = beside_each_other(rewriter, layers, 2);
  const Value sum = linear(rewriter.map(layers[0].product->inputs[0]), weight, bias);
  return layers[0].adapter ? cast(add_adapters(rewriter, layers, sum), dtype) : sum;
}

// Returns the layers of an attention's q, k and v.
Layers match_heads(const Graph& graph, const Uses& uses, const std::optional<HeadOperands>& operands) {
  if (!operands) return {};
  return match_layers(graph, uses, {operands->q.rows, operands->k.rows, operands->v.rows});
}

// Returns the layers of a swiglu's gate and up.
Layers match_gate(const Graph& graph, const Uses& uses, const Node& node) {
  if (!is<ops::Swiglu>(node) || node.inputs.size() != 2) return {};
  return match_layers(graph, uses, node.inputs);
}

int64_t frozen_bytes(const Graph& graph, const Layers& layers) {
  int64_t bytes = 0;
  for (const Layer& layer : layers)
    if (is_frozen(graph, layer.product->inputs[1])) bytes += graph.type(layer.product->inputs[1]).bytes();
  return bytes;
}

// Frozen weights are copied to be concatenated, and the copies live from a layer's product to its gradient. In a small model
// merging the products is worth this; in a large one the copies would take more memory than the batch.
constexpr int64_t kMaxCopied = int64_t{1} << 30;

bool copies_too_much(const Graph& graph, const Uses& uses) {
  int64_t bytes = 0;
  for (const Node& node : graph.nodes())
    bytes += frozen_bytes(graph, match_heads(graph, uses, match_head_operands(graph, uses, node))) +
             frozen_bytes(graph, match_gate(graph, uses, node));
  return bytes > kMaxCopied;
}

Replacement merge_heads(Rewriter& rewriter, const Uses& uses, const Node& node, bool may_copy) {
  const Graph& graph = rewriter.old();
  const auto operands = match_head_operands(graph, uses, node);
  const Layers layers = match_heads(graph, uses, operands);
  if (layers.empty() || (!may_copy && frozen_bytes(graph, layers) > 0)) return std::nullopt;
  return {
      {attend_packed(rewriter, node, *operands,
                     merged(rewriter, layers, *operands->q.reshape, graph.type(operands->q.rows).dtype))}};
}

Replacement merge_gate(Rewriter& rewriter, const Uses& uses, const Node& node, bool may_copy) {
  const Graph& graph = rewriter.old();
  const Layers layers = match_gate(graph, uses, node);
  if (layers.empty() || (!may_copy && frozen_bytes(graph, layers) > 0)) return std::nullopt;
  const Value gate_and_up = merged(rewriter, layers, node, graph.type(node.inputs[0]).dtype);
  rewriter.from_nodes({&node});
  return {{packed_swiglu(gate_and_up)}};
}

}  // namespace

Graph merge_projections(const Graph& graph, const PassContext& context) {
  const Uses uses(graph);
  const bool may_copy = !copies_too_much(graph, uses);
  return rewrite(
      graph,
      [&](Rewriter& rewriter, const Node& node) {
        Replacement heads = merge_heads(rewriter, uses, node, may_copy);
        return heads ? heads : merge_gate(rewriter, uses, node, may_copy);
      },
      context.target);
}

}  // namespace genesis::passes
