#include <algorithm>
#include <map>
#include <optional>

#include "passes/core/analysis.h"
#include "passes/core/match.h"
#include "passes/core/rewriter.h"
#include "passes/fusion/packed_weights.h"
#include "passes/fusion/passes.h"
#include "passes/fusion/pixel_blocks.h"
#include "schema/ops/elementwise/cast.h"
#include "schema/ops/nn/batch_norm.h"
#include "schema/ops/nn/convolution.h"
#include "schema/ops/nn/pooling.h"
#include "schema/ops/tensor/index.h"
#include "schema/ops/tensor/layout.h"
#include "schema/ops/tensor/reduce.h"
#include "schema/ops/tensor/reshape.h"
#include "schema/ops/tensor/slice.h"

namespace genesis::passes {
namespace {

constexpr int64_t kPack = 8;  // numbers of 16 bits that one access has

// Returns the new place of an axis once the channels are last.
int64_t axis_when_last(int64_t axis, int rank) {
  axis = normalize_axis(axis, rank);
  return axis == 0 ? 0 : axis == 1 ? rank - 1 : axis - 1;
}

Shape permuted(const Shape& shape, const std::vector<int64_t>& axes) {
  Shape result;
  for (const int64_t axis : axes) result.push_back(shape[static_cast<int>(axis)]);
  return result;
}

// A permute that moves only axes of size 1 is written as a reshape, which later passes see through.
Value moved(Value x, const std::vector<int64_t>& axes) {
  int64_t last = -1;
  for (const int64_t axis : axes) {
    if (x.dim(axis) == Dim(1)) continue;
    if (axis < last) return permute(x, axes);
    last = axis;
  }
  return reshape(x, permuted(x.shape(), axes));
}

// Writes a graph in which the values that convolutions make, and what follows from these, exist with their channels last. The
// value with its channels behind the batch is made of that by a permute, which is dead unless an op needs this layout.
class LayoutRewriter {
 public:
  LayoutRewriter(const Graph& graph, const PassContext& context)
      : graph_(graph),
        context_(context),
        packs_(packs_weights(graph, context)),
        uses_(graph),
        rewriter_(graph) {}

  Graph run() {
    for (const Node& node : graph_.nodes()) {
      rewriter_.begin_nodes_from({&node});
      const Value last = visit(node);
      const bool replaced = last && put(node, last);
      rewriter_.end_nodes_from();
      if (!replaced && !written_) rewriter_.copy(node);
      changes_ = changes_ || replaced || written_;
      written_ = false;
    }
    if (!changes_) return graph_.share();
    return without_dead_nodes(rewriter_.finish());
  }

 private:
  // Returns the node's result with the channels last; empty: the node is copied, or already replaced (`written_`).
  Value visit(const Node& node) {
    if (has_channels_last(node)) return {};
    note_permute(node);
    if (is<ops::BatchNorm, ops::BatchNormGrad>(node)) return normalized(node);
    if (node.outputs.size() != 1) return {};
    if (is<ops::Convolution, ops::ConvolutionTransposed, ops::ConvolutionWeightGradient>(node))
      return convolved(node);
    if (is<ops::MaxPool, ops::MaxPoolGrad, ops::AveragePool, ops::AveragePoolGrad>(node)) return pooled(node);
    if (is<ops::Sum, ops::Mean, ops::Max, ops::Min>(node)) return reduced(node, node, node.inputs[0]);
    if (const Node* reduction = narrow_reduction(node))
      return reduced(node, *reduction, producer(graph_, reduction->inputs[0])->inputs[0]);
    if (is<ops::Concat>(node)) return joined(node);
    if (is<ops::Slice>(node)) return sliced(node);
    if (is<ops::IndexSelect>(node)) return selected(node);
    if (is<ops::Expand>(node)) return expanded(node);
    if (is<ops::Reshape>(node)) return flattened(node);
    if (packs_ && node.inputs.size() == 1 && is_last(node.inputs[0]) && uses_.single(node.inputs[0]))
      if (const Value y = with_activation(last(node.inputs[0]), node)) return y;
    if (node.op->info.elementwise && !node.op->info.random) return elementwise(node);
    return {};
  }

  // A value that a model permutes to have its channels behind the batch exists with its channels last: it is the operand. With
  // three axes the permute that moves channels to the end is the same, so an op that has channels must read the result: the tokens
  // of a transformer would otherwise be computed with their features behind the batch.
  void note_permute(const Node& node) {
    const auto permute = match<ops::Permute>(node);
    if (!permute) return;
    const int rank = graph_.type(node.outputs[0]).shape.rank();
    if (rank > 2 && permute->axes == axes_to_first(rank) && (rank > 3 || has_channels(node.outputs[0])))
      lasts_[node.outputs[0].index] = rewriter_.map(node.inputs[0]);
  }

  bool has_channels(ValueId value) const {
    return std::ranges::any_of(uses_.readers(value), [&](NodeId reader) {
      const Node& node = graph_.node(reader);
      return node.inputs[0] == value && node.attributes.find("channels_last");
    });
  }

  // An author may write ops in this layout, too.
  static bool has_channels_last(const Node& node) {
    const AttrValue* value = node.attributes.find("channels_last");
    return value && std::get<bool>(*value);
  }

  bool put(const Node& node, Value last) {
    const TensorType& type = graph_.type(node.outputs[0]);
    const int rank = type.shape.rank();
    if (!(last.type() == TensorType{type.dtype, permuted(type.shape, axes_to_last(rank))})) return false;
    lasts_[node.outputs[0].index] = last;
    rewriter_.replace(node, {moved(last, axes_to_first(rank))});
    return true;
  }

  const Shape& shape(ValueId id) const { return graph_.type(id).shape; }
  bool is_last(ValueId id) const { return lasts_.contains(id.index); }

  // Returns a value of at least three axes with its channels last. What is expanded, such as the gradient of a mean, is permuted
  // before that, while it is small.
  Value last(ValueId id) {
    if (!lasts_.contains(id.index)) {
      const Value made = made_last(id);
      lasts_[id.index] = made;
    }
    return lasts_.at(id.index);
  }
  Value made_last(ValueId id) {
    const std::vector<int64_t> axes = axes_to_last(shape(id).rank());
    const auto expands = [&](ValueId of) {
      const auto found = match<ops::Expand>(graph_, of);
      return found && shape(found.input(0)).rank() == shape(id).rank();
    };
    if (expands(id)) return expand(last(match<ops::Expand>(graph_, id).input(0)), permuted(shape(id), axes));
    if (const auto converted = match<ops::Cast>(graph_, id); converted && expands(converted.input(0)))
      return cast(last(converted.input(0)), graph_.type(id).dtype);
    return moved(rewriter_.map(id), axes);
  }

  template <class Op>
  Attributes attributes_of(const Node& node) const {
    auto op = from_attributes<Op>(node.attributes);
    op.windows.channels_last = true;
    return to_attributes(op);
  }

  Value add(const Node& node, const Attributes& attributes, const std::vector<Value>& inputs) {
    return rewriter_.graph().add_node(*node.op, attributes, inputs)[0];
  }

  // Returns true if the target has a kernel of its own for the node with its channels last, in 16 bits, that is as good a choice as
  // the one without: other numbers are multiplied by kernels that gain nothing, and plain kernels compute number by number.
  bool pays(const Node& node, const Attributes& attributes) const {
    const Target* target = context_.target;
    if (!target || !target->choose || !is_low_precision(graph_.type(node.outputs[0]).dtype)) return false;
    std::vector<TensorType> inputs, lasts;
    for (const ValueId id : node.inputs) inputs.push_back(graph_.type(id));
    if (!std::ranges::all_of(inputs, [](const TensorType& type) { return type.shape.is_constant(); }))
      return false;
    for (TensorType type : inputs) {
      if (type.shape.rank() > 2) type.shape = permuted(type.shape, axes_to_last(type.shape.rank()));
      lasts.push_back(type);
    }
    const auto choose = [&](const Attributes& how, const std::vector<TensorType>& operands) {
      return target->choose(target->query(*node.op, how, operands, infer_types(*node.op, how, operands)));
    };
    const KernelChoice choice = choose(attributes, lasts);
    return !choice.name.empty() && !choice.name.ends_with(".plain") &&
           choice.declined.size() <= choose(node.attributes, inputs).declined.size();
  }

  // Tensor cores multiply packs of 8 channels, so fewer channels, such as colors, are filled up with zeros.
  static bool is_filled_up(const Value& x, int64_t groups) {
    const bool is_pixel = x.shape().numel().value() == x.dim(0).value() * x.dim(-1).value();
    return groups == 1 && x.dim(-1).value() < kPack && !is_pixel;
  }

  Value filled_up(Value x) {
    std::vector<int64_t> none(static_cast<size_t>(x.rank()), 0), behind = none;
    behind.back() = kPack - x.dim(-1).value();
    Value& made = filled_[x.id.index];
    return made = made ? made : pad(x, none, behind);
  }

  Value convolved(const Node& node) {
    const Attributes attributes = is<ops::Convolution>(node) ? attributes_of<ops::Convolution>(node)
                                  : is<ops::ConvolutionTransposed>(node)
                                      ? attributes_of<ops::ConvolutionTransposed>(node)
                                      : attributes_of<ops::ConvolutionWeightGradient>(node);
    if (packs_) return packed(node);
    if (!pays(node, attributes)) return {};
    if (const auto blocks = PixelBlocks::of(graph_, node)) return convolved_blocks(node, *blocks);
    std::vector<Value> inputs;
    for (const ValueId id : node.inputs)
      inputs.push_back(shape(id).rank() > 2 ? last(id) : rewriter_.map(id));
    const bool is_gradient = is<ops::ConvolutionWeightGradient>(node);
    const int64_t channels = inputs[0].dim(-1).value();
    const int64_t groups =
        is_gradient                  ? from_attributes<ops::ConvolutionWeightGradient>(node.attributes).groups
        : is<ops::Convolution>(node) ? from_attributes<ops::Convolution>(node.attributes).groups
                                     : 0;
    const bool fills = is_filled_up(inputs[0], groups);
    if (fills) inputs[0] = filled_up(inputs[0]);
    if (fills && !is_gradient) inputs[1] = filled_up(inputs[1]);
    Value y = add(node, attributes, inputs);
    if (!is_gradient) return y;
    // The update of the weight follows, which stays as the file has it.
    if (fills) y = narrow(y, -1, 0, channels);
    rewriter_.replace(node, {moved(y, axes_to_first(y.rank()))});
    written_ = true;
    return {};
  }

  // On a CPU, lanes of vectors are output channels, and weights are packed in this order once.
  Value packed(const Node& node) {
    const auto convolution = match<ops::Convolution>(node);
    if (!convolution || !depends_on_states_alone(graph_, node.inputs[1])) return {};
    TensorType x = graph_.type(node.inputs[0]), result = graph_.type(node.outputs[0]);
    const std::vector<int64_t> axes = axes_to_last(x.shape.rank());
    x.shape = permuted(x.shape, axes), result.shape = permuted(result.shape, axes);
    const auto op =
        packed_form(*context_.target, convolution.attributes, x, graph_.type(node.inputs[1]), result);
    if (!op) return {};
    std::vector<Value> inputs;
    for (size_t i = 0; i < node.inputs.size(); ++i)
      inputs.push_back(i == 1                             ? packed_weight(rewriter_.map(node.inputs[1]))
                       : shape(node.inputs[i]).rank() > 2 ? last(node.inputs[i])
                                                          : rewriter_.map(node.inputs[i]));
    return add(node, to_attributes(*op), inputs);
  }

  // The windows of colors move by blocks of pixels: a block is a pixel with more channels, over which a smaller window moves by one.
  Value convolved_blocks(const Node& node, const PixelBlocks& blocks) {
    Value& x = blocks_[{node.inputs[0].index, blocks.stride}];
    if (!x) x = blocks.of_pixels(rewriter_.map(node.inputs[0]));
    if (is<ops::ConvolutionWeightGradient>(node)) {
      auto op = from_attributes<ops::ConvolutionWeightGradient>(node.attributes);
      op.windows = blocks.windows(), op.window = blocks.window();
      const Value y = add(node, to_attributes(op), {x, last(node.inputs[1])});
      rewriter_.replace(node, {blocks.weight_of(y)});
      written_ = true;
      return {};
    }
    auto op = from_attributes<ops::Convolution>(node.attributes);
    op.windows = blocks.windows();
    std::vector<Value> inputs = {x, blocks.of_weight(rewriter_.map(node.inputs[1]))};
    for (size_t i = 2; i < node.inputs.size(); ++i)
      inputs.push_back(shape(node.inputs[i]).rank() > 2 ? last(node.inputs[i])
                                                        : rewriter_.map(node.inputs[i]));
    return add(node, to_attributes(op), inputs);
  }

  Value pooled(const Node& node) {
    if (std::ranges::none_of(node.inputs, [&](ValueId id) { return is_last(id); })) return {};
    const Attributes attributes = is<ops::MaxPool>(node)       ? attributes_of<ops::MaxPool>(node)
                                  : is<ops::MaxPoolGrad>(node) ? attributes_of<ops::MaxPoolGrad>(node)
                                  : is<ops::AveragePool>(node) ? attributes_of<ops::AveragePool>(node)
                                                               : attributes_of<ops::AveragePoolGrad>(node);
    std::vector<Value> inputs;
    for (const ValueId id : node.inputs) inputs.push_back(last(id));
    return add(node, attributes, inputs);
  }

  // Vectors of the channels stay as they are.
  Value normalized(const Node& node) {
    const int rank = shape(node.inputs[0]).rank();
    if (rank < 3 || std::ranges::none_of(node.inputs, [&](ValueId id) { return is_last(id); })) return {};
    Attributes attributes = node.attributes;
    attributes.set("channels_last", true);
    std::vector<Value> inputs;
    for (const ValueId id : node.inputs)
      inputs.push_back(shape(id).rank() == rank ? last(id) : rewriter_.map(id));
    std::vector<Value> results = rewriter_.graph().add_node(*node.op, attributes, inputs);
    for (size_t i = 0; i < results.size(); ++i)
      if (results[i].rank() == rank) {
        lasts_[node.outputs[i].index] = results[i];
        results[i] = moved(results[i], axes_to_first(rank));
      }
    rewriter_.replace(node, results);
    written_ = true;
    return {};
  }

  // A mean or sum in 16 bits is added in f32, and rounded once: around it, casts to f32 and back are dropped, of which the first
  // would write all elements. Returns the reduction of such a cast whose rounded result the node is, or null.
  const Node* narrow_reduction(const Node& node) const {
    if (!is<ops::Cast>(node) || !uses_.single(node.inputs[0])) return nullptr;
    const Node* reduction = producer(graph_, node.inputs[0]);
    if (!reduction || !is<ops::Sum, ops::Mean>(*reduction)) return nullptr;
    const auto wide = match<ops::Cast>(graph_, reduction->inputs[0]);
    const DType dtype = graph_.type(node.outputs[0]).dtype;
    const bool is_narrow = wide && is_low_precision(dtype) && graph_.type(wide.input(0)).dtype == dtype;
    return is_narrow && is_last(wide.input(0)) ? reduction : nullptr;
  }

  // Reduces x as the node `reduction` does; `node` has the result. A reduction that drops axes is one that keeps them, and a reshape.
  Value reduced(const Node& node, const Node& reduction, ValueId x) {
    if (!is_last(x)) return {};
    const int rank = shape(x).rank();
    auto op = from_attributes<ops::OverAxes>(reduction.attributes);
    const bool keeps = op.keep_dims;
    for (int64_t& axis : op.axes) axis = axis_when_last(axis, rank);
    std::ranges::sort(op.axes);
    op.keep_dims = true;
    const Value y = add(reduction, to_attributes(op), {last(x)});
    if (keeps) return y;
    rewriter_.replace(node, {reshape(moved(y, axes_to_first(rank)), shape(node.outputs[0]))});
    written_ = true;
    return {};
  }

  Value joined(const Node& node) {
    if (std::ranges::none_of(node.inputs, [&](ValueId id) { return is_last(id); })) return {};
    std::vector<Value> inputs;
    for (const ValueId id : node.inputs) inputs.push_back(last(id));
    return concat(inputs,
                  axis_when_last(from_attributes<ops::Concat>(node.attributes).axis, inputs[0].rank()));
  }

  Value sliced(const Node& node) {
    if (!is_last(node.inputs[0])) return {};
    auto op = from_attributes<ops::Slice>(node.attributes);
    op.axis = axis_when_last(op.axis, shape(node.inputs[0]).rank());
    return add(node, to_attributes(op), {last(node.inputs[0])});
  }

  // Rows and columns that are repeated, such as by a resize.
  Value selected(const Node& node) {
    if (!is_last(node.inputs[0])) return {};
    auto op = from_attributes<ops::IndexSelect>(node.attributes);
    op.axis = axis_when_last(op.axis, shape(node.inputs[0]).rank());
    return add(node, to_attributes(op), {last(node.inputs[0]), rewriter_.map(node.inputs[1])});
  }

  Value expanded(const Node& node) {
    const ValueId x = node.inputs[0];
    const Shape& to = shape(node.outputs[0]);
    if (!is_last(x) || shape(x).rank() != to.rank()) return {};
    return expand(last(x), permuted(to, axes_to_last(to.rank())));
  }

  // A reshape that joins all axes behind the channels, such as that of patches to tokens.
  Value flattened(const Node& node) {
    const Shape &from = shape(node.inputs[0]), &to = shape(node.outputs[0]);
    if (!is_last(node.inputs[0]) || from.rank() < 4 || to.rank() != 3 || from[0] != to[0] || from[1] != to[1])
      return {};
    return reshape(last(node.inputs[0]), permuted(to, axes_to_last(3)));
  }

  Value elementwise(const Node& node) {
    const Shape& result = shape(node.outputs[0]);
    const auto decides = [&](ValueId id) { return is_last(id) && shape(id) == result; };
    if (std::ranges::none_of(node.inputs, decides)) return {};
    std::vector<Value> inputs;
    for (const ValueId id : node.inputs) inputs.push_back(operand(id, result.rank()));
    return add(node, node.attributes, inputs);
  }

  // Returns an operand that broadcasts to values of `rank` axes. Another operand has all sizes of the result, so expansions are
  // not needed.
  Value operand(ValueId id, int rank) {
    if (shape(id).rank() == 0) return rewriter_.map(id);
    if (!is_last(id))
      if (const auto expansion = match<ops::Expand>(graph_, id);
          expansion && shape(expansion.input(0)).rank())
        return operand(expansion.input(0), rank);
    if (shape(id).rank() == rank) return last(id);
    Shape all(std::vector<Dim>(static_cast<size_t>(rank - shape(id).rank()), Dim(1)));
    for (const Dim& size : shape(id)) all.push_back(size);
    return moved(reshape(rewriter_.map(id), all), axes_to_last(rank));
  }

  const Graph& graph_;
  const PassContext& context_;
  const bool packs_;  // weights of f32 convolutions, for a CPU
  const Uses uses_;
  Rewriter rewriter_;
  std::map<int32_t, Value> lasts_;                       // by value of the old graph
  std::map<int32_t, Value> filled_;                      // by value of the new graph
  std::map<std::pair<int32_t, int64_t>, Value> blocks_;  // by value of the old graph and stride
  bool written_ = false, changes_ = false;
};

}  // namespace

Graph channels_last(const Graph& graph, const PassContext& context) {
  return LayoutRewriter(graph, context).run();
}

}  // namespace genesis::passes
