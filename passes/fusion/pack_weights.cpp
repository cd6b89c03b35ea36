#include <map>

#include "passes/core/analysis.h"
#include "passes/core/match.h"
#include "passes/core/rewriter.h"
#include "passes/fusion/packed_weights.h"
#include "passes/fusion/passes.h"
#include "schema/graph/graph.h"
#include "schema/ops/elementwise/elementwise.h"
#include "schema/ops/nn/convolution.h"
#include "schema/ops/nn/matmul.h"
#include "schema/ops/tensor/layout.h"
#include "schema/ops/tensor/reshape.h"
#include "schema/ops/tensor/slice.h"

namespace genesis::passes {

namespace {

// Products of fewer rows are bound by reading their weights, which packing does not speed up.
constexpr int64_t kMinRows = 16;
constexpr int kMaxNodesBehind = 3;  // a product: those of a bias, an addend and an activation

// activation(x weight^T + bias + addend), with the weight [out, in], or [in, out] if it `has_columns`; empty values: 0.
struct Layer {
  Value x, weight;
  ValueId weight_id;  // in the graph that is rewritten
  Value bias = {}, addend = {};
  bool has_columns = false;
  Activation activation = Activation::kNone;

  Dim out() const { return weight.dim(has_columns ? 1 : 0); }
  // [ceil(out / kPackedOut), 1, in, kPackedOut], as packed_weight() has it.
  Value packed() const {
    const Dim in = x.dim(-1), size = out();
    if (!has_columns) return packed_weight(reshape(weight, {size, in, 1}));
    const int64_t panels = (size.value() + kPackedOut - 1) / kPackedOut,
                  more = panels * kPackedOut - size.value();
    const Value all = more > 0 ? pad(weight, {0, 0}, {0, more}) : weight;
    return reshape(permute(reshape(all, {in, panels, kPackedOut}), {1, 0, 2}), {panels, 1, in, kPackedOut});
  }
};

// Collects the nodes that make a layer of a product, each the only reader of the one before.
class LayerCollector {
 public:
  LayerCollector(Rewriter& rewriter, const Uses& uses)
      : rewriter_(rewriter), graph_(rewriter.old()), uses_(uses) {}

  // Follows at most `more` nodes behind the product.
  std::optional<Layer> follow(const Node& last, int more = kMaxNodesBehind) {
    if (const auto product = match<ops::Matmul>(last)) return of_product(product);
    if (const auto layer = match<ops::Linear>(last)) return of_layer(layer);
    if (more == 0 || (!is<ops::Add>(last) && !activation_of(last))) return std::nullopt;
    for (size_t side = 0; side < last.inputs.size(); ++side) {
      const ValueId from = last.inputs[side];
      const Node* node = uses_.single(from) ? producer(graph_, from) : nullptr;
      if (!node || !(graph_.type(from) == graph_.type(last.outputs[0]))) continue;
      if (auto found = follow(*node, more - 1); found && extend(*found, last, side)) return found;
    }
    return std::nullopt;
  }

 private:
  std::optional<Layer> of_product(const Matched<ops::Matmul>& product) {
    const ValueId weight = product.input(1);
    if (!product->is_plain() || product->transpose_a || !fits(product.input(0), weight)) return std::nullopt;
    Layer made{.x = rewriter_.map(product.input(0)),
               .weight = rewriter_.map(weight),
               .weight_id = weight,
               .has_columns = !product->transpose_b};
    if (product.num_inputs() > 2) made.addend = rewriter_.map(product.input(2));
    return made;
  }

  std::optional<Layer> of_layer(const Matched<ops::Linear>& layer) {
    if (!layer->is_plain() || !fits(layer.input(0), layer.input(1))) return std::nullopt;
    Layer made{.x = rewriter_.map(layer.input(0)),
               .weight = rewriter_.map(layer.input(1)),
               .weight_id = layer.input(1)};
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
    if (layer.bias || type.shape.rank() != 1 || !(type.shape[0] == layer.out())) return false;
    layer.bias = rewriter_.map(other);
    return true;
  }

  Rewriter& rewriter_;
  const Graph& graph_;
  const Uses& uses_;
};

// The packed weights of the new graph, by the old weight and Layer::has_columns: layers that share a weight share its packed form.
using PackedWeights = std::map<std::pair<int32_t, bool>, Value>;

// A layer is a convolution over its rows with a window of one.
Replacement with_packed_weight(Rewriter& rewriter, const Uses& uses, const Target& target,
                               PackedWeights& packed, const Node& node) {
  auto layer = LayerCollector(rewriter, uses).follow(node);
  const auto activation = layer ? packed_activation(layer->activation) : std::nullopt;
  if (!activation) return std::nullopt;
  const TensorType& result = rewriter.old().type(node.outputs[0]);
  const Dim in = layer->x.dim(-1), out = layer->out(), rows = layer->x.type().numel() / in.value();
  ops::Convolution plain{.windows = {.strides = {1}, .dilations = {1}, .pads_begin = {0}, .pads_end = {0}},
                         .activation = *activation,
                         .has_bias = bool(layer->bias),
                         .has_addend = bool(layer->addend)};
  const auto op = packed_form(target, plain, {DType::f32, {1, rows, in}}, {DType::f32, {out, in, 1}},
                              {DType::f32, {1, rows, out}});
  if (!op) return std::nullopt;
  Value& weight = packed[{layer->weight_id.index, layer->has_columns}];
  if (!weight) weight = layer->packed();
  ConvolutionOperands operands{.x = reshape(layer->x, {1, rows, in}), .weight = weight};
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
  if (!packs_weights(graph, context) || !is_encoder(graph)) return graph.share();
  const Uses uses(graph);
  PackedWeights packed;
  return rewrite(
      graph,
      [&](Rewriter& rewriter, const Node& node) {
        return with_packed_weight(rewriter, uses, *context.target, packed, node);
      },
      context.target);
}

}  // namespace genesis::passes
