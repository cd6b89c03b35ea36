#include <algorithm>

#include "passes/core/analysis.h"
#include "passes/core/match.h"
#include "passes/core/rewriter.h"
#include "passes/fusion/packed_weights.h"
#include "passes/fusion/passes.h"
#include "schema/graph/graph.h"
#include "schema/graph/state_storage.h"
#include "schema/ops/elementwise/elementwise.h"
#include "schema/ops/nn/convolution.h"
#include "schema/ops/nn/matmul.h"
#include "schema/ops/tensor/layout.h"
#include "schema/ops/tensor/reshape.h"

namespace genesis::passes {

namespace {

std::optional<ConvolutionActivation> packed_activation(Activation activation) {
  switch (activation) {
    case Activation::kNone:
      return ConvolutionActivation::kNone;
    case Activation::kRelu:
      return ConvolutionActivation::kRelu;
    case Activation::kGelu:
      return ConvolutionActivation::kGelu;
    case Activation::kGeluTanh:
      return ConvolutionActivation::kGeluTanh;
    case Activation::kSilu:
      return ConvolutionActivation::kSilu;
  }
  return std::nullopt;
}

std::optional<Activation> activation_of(const Node& node) {
  if (is<ops::Relu>(node)) return Activation::kRelu;
  if (const auto gelu = match<ops::Gelu>(node))
    return gelu->approximate == GeluKind::kErf ? Activation::kGelu : Activation::kGeluTanh;
  if (is<ops::Silu>(node)) return Activation::kSilu;
  return std::nullopt;
}

}  // namespace

bool packs_weights(const Graph& graph, const PassContext& context) {
  if (!context.target || context.target->device != "cpu" || !context.target->choose) return false;
  if (!graph.updates().empty() || (context.storage && !context.storage->empty())) return false;
  const auto is_gradient = [](const Node& node) {
    return is<ops::ConvolutionWeightGradient>(node) || node.op->name().ends_with("_grad");
  };
  return std::ranges::none_of(graph.nodes(), is_gradient);
}

bool depends_on_states_alone(const Graph& graph, ValueId id) {
  const ValueInfo& info = graph.value(id);
  if (info.kind == ValueKind::kState) {
    const StateRole role = graph.model().state(info.index).role;
    return role == StateRole::kParameter || role == StateRole::kBuffer;
  }
  if (info.kind != ValueKind::kNode) return false;
  const Node& node = graph.nodes()[static_cast<size_t>(info.producer.index)];
  const auto is_still = [&](ValueId input) {
    return graph.value(input).kind == ValueKind::kConstant || depends_on_states_alone(graph, input);
  };
  return !node.op->info.random && !node.op->info.collective && std::ranges::all_of(node.inputs, is_still) &&
         std::ranges::any_of(node.inputs,
                             [&](ValueId input) { return depends_on_states_alone(graph, input); });
}

std::optional<ops::Convolution> packed_form(const Target& target, ops::Convolution op, const TensorType& x,
                                            const TensorType& weight, const TensorType& result) {
  if (x.dtype != DType::f32 || !x.shape.is_constant() || !weight.shape.is_constant()) return std::nullopt;
  const int64_t out = weight.shape[0].value();
  if (out == 0) return std::nullopt;
  op.windows.channels_last = true, op.packed_out = out;
  Shape packed = {(out + kPackedOut - 1) / kPackedOut};
  for (int axis = 2; axis < weight.shape.rank(); ++axis) packed.push_back(weight.shape[axis]);
  packed.push_back(weight.shape[1]), packed.push_back(kPackedOut);
  std::vector<TensorType> inputs = {x, {weight.dtype, packed}};
  for (const bool has : {op.has_scale, op.has_bias})
    if (has) inputs.push_back({x.dtype, {out}});
  if (op.has_addend) inputs.push_back(result);
  const Attributes attributes = to_attributes(op);
  const KernelQuery query = target.query(kOpDef<ops::Convolution>, attributes, inputs, {&result, 1});
  return target.choose(query).name.empty() ? std::nullopt : std::optional(op);
}

Value with_activation(Value y, const Node& node) {
  const auto activation = activation_of(node);
  const Node* made = activation ? producer(*y.graph, y.id) : nullptr;
  const auto convolution = made ? match<ops::Convolution>(*made) : Matched<ops::Convolution>{};
  if (!convolution || convolution->packed_out == 0 || convolution->activation != ConvolutionActivation::kNone)
    return {};
  ops::Convolution op = convolution.attributes;
  op.activation = *packed_activation(*activation);
  std::vector<Value> inputs;
  for (const ValueId id : std::vector<ValueId>(made->inputs)) inputs.push_back(y.graph->handle(id));
  return y.graph->add_node(kOpDef<ops::Convolution>, to_attributes(op), inputs)[0];
}

namespace {

// Products of fewer rows are bound by reading their weights, which packing does not speed up.
constexpr int64_t kMinRows = 16;

// activation(x weight^T + bias + addend), with the weight [out, in]; empty values: 0.
struct Layer {
  Value x, weight, bias = {}, addend = {};
  Activation activation = Activation::kNone;
};

// Collects the nodes that make a layer of a product, each the only reader of the one before.
class LayerCollector {
 public:
  LayerCollector(Rewriter& rewriter, const Uses& uses)
      : rewriter_(rewriter), graph_(rewriter.old()), uses_(uses) {}

  std::optional<Layer> follow(const Node& last) {
    if (const auto product = match<ops::Matmul>(last)) return of_product(product);
    if (const auto layer = match<ops::Linear>(last)) return of_layer(layer);
    if (!is<ops::Add>(last) && !activation_of(last)) return std::nullopt;
    for (size_t side = 0; side < last.inputs.size(); ++side) {
      const ValueId from = last.inputs[side];
      const Node* node = uses_.single(from) ? producer(graph_, from) : nullptr;
      if (!node || !(graph_.type(from) == graph_.type(last.outputs[0]))) continue;
      if (auto found = follow(*node); found && extend(*found, last, side)) return found;
    }
    return std::nullopt;
  }

 private:
  std::optional<Layer> of_product(const Matched<ops::Matmul>& product) {
    const ValueId weight = product.input(1);
    if (!product->is_plain() || product->transpose_a || product.num_inputs() != 2 ||
        !fits(product.input(0), weight))
      return std::nullopt;
    const Value w = rewriter_.map(weight);
    return Layer{rewriter_.map(product.input(0)), product->transpose_b ? w : transpose(w)};
  }

  std::optional<Layer> of_layer(const Matched<ops::Linear>& layer) {
    if (!layer->is_plain() || !fits(layer.input(0), layer.input(1))) return std::nullopt;
    Layer made{rewriter_.map(layer.input(0)), rewriter_.map(layer.input(1))};
    if (layer->has_bias(layer.num_inputs())) made.bias = rewriter_.map(layer.input(layer->first_bias()));
    if (layer->has_addend) made.addend = rewriter_.map(layer.node->inputs.back());
    made.activation = layer->activation;
    return made;
  }

  bool fits(ValueId x, ValueId weight) const {
    const TensorType &rows = graph_.type(x), &type = graph_.type(weight);
    return rows.dtype == DType::f32 && rows.shape.is_constant() && rows.shape.rank() > 1 &&
           type.dtype == DType::f32 && type.shape.rank() == 2 && rows.numel() > 0 &&
           rows.numel() / rows.shape[rows.shape.rank() - 1].value() >= kMinRows &&
           depends_on_states_alone(graph_, weight);
  }

  bool extend(Layer& layer, const Node& node, size_t side) {
    if (layer.activation != Activation::kNone) return false;
    if (const auto activation = activation_of(node)) {
      layer.activation = *activation;
      return true;
    }
    const ValueId other = node.inputs[1 - side];
    const TensorType& type = graph_.type(other);
    if (layer.addend || type.dtype != DType::f32) return false;
    if (type.shape == graph_.type(node.outputs[0]).shape) {
      layer.addend = rewriter_.map(other);
      return true;
    }
    if (layer.bias || type.shape.rank() != 1 || !(type.shape[0] == layer.weight.dim(0))) return false;
    layer.bias = rewriter_.map(other);
    return true;
  }

  Rewriter& rewriter_;
  const Graph& graph_;
  const Uses& uses_;
};

// A layer is a convolution over its rows with a window of one.
Replacement with_packed_weight(Rewriter& rewriter, const Uses& uses, const Target& target, const Node& node) {
  auto layer = LayerCollector(rewriter, uses).follow(node);
  const auto activation = layer ? packed_activation(layer->activation) : std::nullopt;
  if (!activation) return std::nullopt;
  const TensorType& result = rewriter.old().type(node.outputs[0]);
  const Dim in = layer->x.dim(-1), out = layer->weight.dim(0), rows = layer->x.type().numel() / in.value();
  const Value weight = reshape(layer->weight, {out, in, 1});
  ops::Convolution plain{.windows = {.strides = {1}, .dilations = {1}, .pads_begin = {0}, .pads_end = {0}},
                         .activation = *activation,
                         .has_bias = bool(layer->bias),
                         .has_addend = bool(layer->addend)};
  const auto op =
      packed_form(target, plain, {DType::f32, {1, rows, in}}, weight.type(), {DType::f32, {1, rows, out}});
  if (!op) return std::nullopt;
  ConvolutionOperands operands{.x = reshape(layer->x, {1, rows, in}), .weight = packed_weight(weight)};
  operands.bias = layer->bias;
  if (layer->addend) operands.addend = reshape(layer->addend, {1, rows, out});
  return {{reshape(convolution(*op, operands), result.shape)}};
}

// Language models keep their weights once: a step of one token reads them as they are.
bool is_encoder(const Graph& graph) {
  return std::ranges::none_of(graph.nodes(), [](const Node& node) {
    const AttrValue* causal = node.attributes.find("causal");
    return node.op->info.name.find("cached") != std::string_view::npos || (causal && std::get<bool>(*causal));
  });
}

}  // namespace

Graph pack_weights(const Graph& graph, const PassContext& context) {
  if (!packs_weights(graph, context) || !is_encoder(graph)) return copy_graph(graph, graph.model());
  const Uses uses(graph);
  return rewrite(
      graph,
      [&](Rewriter& rewriter, const Node& node) {
        return with_packed_weight(rewriter, uses, *context.target, node);
      },
      context.target);
}

}  // namespace genesis::passes
