#include "passes/fusion/packed_weights.h"

#include <algorithm>
#include <map>

#include "passes/core/analysis.h"
#include "passes/core/match.h"
#include "schema/graph/graph.h"
#include "schema/graph/state_storage.h"
#include "schema/ops/elementwise/elementwise.h"
#include "schema/ops/nn/convolution.h"
#include "schema/ops/nn/matmul.h"

namespace genesis::passes {

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

namespace {

// Says which values depend on parameters or buffers, and on nothing that changes from run to run.
class Dependences {
 public:
  enum class Kind : uint8_t { kConstant, kStates, kChanging };
  explicit Dependences(const Graph& graph) : graph_(graph) {}

  Kind of(ValueId id) {
    const ValueInfo& info = graph_.value(id);
    if (info.kind == ValueKind::kConstant) return Kind::kConstant;
    if (info.kind == ValueKind::kState) {
      const StateRole role = graph_.model().state(info.index).role;
      return role == StateRole::kParameter || role == StateRole::kBuffer ? Kind::kStates : Kind::kChanging;
    }
    if (info.kind != ValueKind::kNode) return Kind::kChanging;
    const int32_t node = info.producer.index;
    if (const auto known = nodes_.find(node); known != nodes_.end()) return known->second;
    return nodes_[node] = of_node(graph_.nodes()[static_cast<size_t>(node)]);
  }

 private:
  Kind of_node(const Node& node) {
    if (node.op->info.random || node.op->info.collective) return Kind::kChanging;
    Kind kind = Kind::kConstant;
    for (size_t i = 0; i < node.inputs.size() && kind != Kind::kChanging; ++i)
      kind = std::max(kind, of(node.inputs[i]));
    return kind;
  }

  const Graph& graph_;
  std::map<int32_t, Kind> nodes_;  // a value may be read many times
};

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
  return Dependences(graph).of(id) == Dependences::Kind::kStates;
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

}  // namespace genesis::passes
