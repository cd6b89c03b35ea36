#include "passes/core/match.h"
#include "passes/core/rewriter.h"
#include "passes/fusion/passes.h"
#include "schema/ops/elementwise/cast.h"
#include "schema/ops/elementwise/elementwise.h"
#include "schema/ops/nn/convolution.h"
#include "schema/ops/tensor/reshape.h"

namespace genesis::passes {
namespace {

// The nodes that follow a convolution c, as activation(scale * c + bias + addend); empty values: 1, 0, 0.
struct Following {
  Matched<ops::Convolution> convolution;
  Value scale, bias, addend;
  ConvolutionActivation activation = ConvolutionActivation::kNone;
  std::vector<const Node*> nodes;  // from the convolution on
};

// The fast kernels of CPUs take no sigmoid, and silu with packed weights only (packed_weights.h).
bool takes_exponentials(const Target* target) { return target && target->device != "cpu"; }

std::optional<ConvolutionActivation> activation_of(const Node& node, bool takes_exponentials) {
  if (takes_exponentials && is<ops::Silu>(node)) return ConvolutionActivation::kSilu;
  if (takes_exponentials && is<ops::Sigmoid>(node)) return ConvolutionActivation::kSigmoid;
  if (is<ops::Relu>(node)) return ConvolutionActivation::kRelu;
  if (is<ops::Hardswish>(node)) return ConvolutionActivation::kHardswish;
  const auto clamp = match<ops::Clamp>(node);
  if (clamp && clamp->min == 0 && clamp->max == 6) return ConvolutionActivation::kRelu6;
  return std::nullopt;
}

// The most nodes that an epilogue is made of: batch norm written out, an addend, an activation and casts are ten. A longer search would
// begin again at each node of a long sum.
constexpr int kMaxFollowing = 16;

// Collects the nodes behind a convolution, each the only reader of the one before. Vectors of the epilogue are added to the new
// graph while it looks; those of a rule that does not apply in the end have no readers.
class Collector {
 public:
  Collector(Rewriter& rewriter, const Uses& uses, bool takes_exponentials)
      : rewriter_(rewriter), graph_(rewriter.old()), uses_(uses), takes_exponentials_(takes_exponentials) {}

  std::optional<Following> follow(const Node& last, int most = kMaxFollowing) {
    if (const auto convolution = match<ops::Convolution>(last)) return begin(convolution);
    if (most == 0) return std::nullopt;
    const bool has_rule =
        is<ops::Add, ops::Sub, ops::Mul, ops::Cast>(last) || activation_of(last, takes_exponentials_);
    if (!has_rule || !is_float(graph_.type(last.outputs[0]).dtype)) return std::nullopt;
    for (size_t side = 0; side < last.inputs.size(); ++side) {
      if (side == 1 && is<ops::Sub>(last)) break;
      const ValueId from = last.inputs[side];
      const Node* node = uses_.single(from) ? producer(graph_, from) : nullptr;
      if (!node || !(graph_.type(from).shape == graph_.type(last.outputs[0]).shape)) continue;
      if (auto found = follow(*node, most - 1); found && extend(*found, last, side)) {
        found->nodes.push_back(&last);
        return found;
      }
    }
    return std::nullopt;
  }

 private:
  // A convolution that already has an activation takes nothing more.
  std::optional<Following> begin(const Matched<ops::Convolution>& convolution) {
    if (convolution->activation != ConvolutionActivation::kNone || convolution->has_addend)
      return std::nullopt;
    Following found{.convolution = convolution, .nodes = {convolution.node}};
    if (convolution->has_scale) found.scale = wide(rewriter_.map(convolution.input(2)));
    if (convolution->has_bias)
      found.bias = wide(rewriter_.map(convolution.input(static_cast<size_t>(convolution->bias_input()))));
    return found;
  }

  bool extend(Following& found, const Node& node, size_t side) {
    if (is<ops::Cast>(node)) return true;
    if (found.activation != ConvolutionActivation::kNone) return false;
    if (const auto activation = activation_of(node, takes_exponentials_)) {
      found.activation = *activation;
      return true;
    }
    const ValueId other = node.inputs[1 - side];
    if (is<ops::Mul>(node)) return scale_by(found, channels(found, other));
    const Value vector = channels(found, other);
    if (!vector) return is<ops::Add>(node) && add(found, other);
    const Value change = is<ops::Sub>(node) ? -vector : vector;
    found.bias = found.bias ? found.bias + change : change;
    return true;
  }

  // (s c + b) v = (s v) c + b v
  bool scale_by(Following& found, Value vector) {
    if (!vector || found.addend) return false;
    found.scale = found.scale ? found.scale * vector : vector;
    if (found.bias) found.bias = found.bias * vector;
    return true;
  }

  bool add(Following& found, ValueId other) {
    const TensorType& result = graph_.type(found.convolution.node->outputs[0]);
    if (found.addend || !(graph_.type(other).shape == result.shape)) return false;
    found.addend = cast(rewriter_.map(other), result.dtype);
    return true;
  }

  // Returns one number for each output channel, if the operand broadcasts so; else an empty value.
  Value channels(const Following& found, ValueId operand) {
    const TensorType &type = graph_.type(operand), &result = graph_.type(found.convolution.node->outputs[0]);
    const int channel = type.shape.rank() - (result.shape.rank() - 1);
    if (channel < 0 || !is_float(type.dtype) || !(type.shape[channel] == result.shape[1])) return {};
    for (int axis = 0; axis < type.shape.rank(); ++axis)
      if (axis != channel && !(type.shape[axis] == Dim(1))) return {};
    return reshape(wide(rewriter_.map(operand)), {result.shape[1]});
  }

  Value wide(Value x) { return cast(x, wide_dtype(x.dtype())); }

  Rewriter& rewriter_;
  const Graph& graph_;
  const Uses& uses_;
  bool takes_exponentials_;
};

Replacement with_epilogue(Rewriter& rewriter, const Uses& uses, bool takes_exponentials, const Node& node) {
  if (is<ops::Convolution>(node)) return std::nullopt;
  auto found = Collector(rewriter, uses, takes_exponentials).follow(node);
  if (!found) return std::nullopt;
  const Graph& graph = rewriter.old();
  if (!(graph.type(node.outputs[0]) == graph.type(found->convolution.node->outputs[0]))) return std::nullopt;
  rewriter.from_nodes(found->nodes);
  ops::Convolution op = found->convolution.attributes;
  op.activation = found->activation;
  const Value x = rewriter.map(found->convolution.input(0)),
              weight = rewriter.map(found->convolution.input(1));
  return {{convolution(op, {x, weight, found->scale, found->bias, found->addend})}};
}

}  // namespace

Graph fuse_convolution(const Graph& graph, const PassContext& context) {
  const Uses uses(graph);
  const bool exponentials = takes_exponentials(context.target);
  return rewrite(
      graph,
      [&](Rewriter& rewriter, const Node& node) { return with_epilogue(rewriter, uses, exponentials, node); },
      context.target);
}

}  // namespace genesis::passes
