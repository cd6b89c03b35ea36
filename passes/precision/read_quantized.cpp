#include "passes/precision/passes.h"

#include <algorithm>
#include <map>
#include <set>

#include "passes/core/match.h"
#include "passes/core/native.h"
#include "passes/core/rewriter.h"
#include "schema/encoding/quantized_formats.h"
#include "schema/graph/state_cuts.h"
#include "schema/graph/state_storage.h"
#include "schema/ops/elementwise/cast.h"
#include "schema/ops/nn/dequantize.h"
#include "schema/ops/nn/grouped_matmul.h"
#include "schema/ops/nn/matmul.h"
#include "schema/ops/tensor/index.h"

namespace genesis::passes {
namespace {

// --- decode_quantized

constexpr size_t kTable = 1;  // input of embedding

class Decoder {
 public:
  Decoder(const Graph& graph, const StateStorage& storage) : graph_(graph), rewriter_(graph) {
    for (const StoredGroup& group : storage.groups)
      if (weight_format_of(*group.format) != WeightFormat::kPlain) groups_[group.members[0]] = &group;
  }

  // Puts all dequantize nodes first: passes that merge layers need all their weights before the first layer.
  Graph run() {
    for (size_t i = 0; i < graph_.values().size(); ++i) decode({static_cast<int32_t>(i)});
    for (const Node& node : graph_.nodes()) {
      rewriter_.begin_nodes_from({&node});
      const Replacement values = visit(node);
      rewriter_.end_nodes_from();
      values ? rewriter_.replace(node, *values) : rewriter_.copy(node);
    }
    return without_dead_nodes(rewriter_.finish());
  }

 private:
  const StoredGroup* group_of(ValueId id) const {
    const auto at = groups_.find(state_of(graph_, id));
    return at == groups_.end() ? nullptr : at->second;
  }
  Value part(const StoredGroup& group, size_t i) { return rewriter_.graph().state(group.parts[i]); }

  void decode(ValueId id) {
    if (const StoredGroup* group = group_of(id))
      rewriter_.replace(id, dequantized(*group, graph_.type(id).dtype));
  }
  Value dequantized(const StoredGroup& group, DType dtype) {
    return dequantize(weight_format_of(*group.format), part(group, 0), part(group, 1), dtype);
  }

  Replacement visit(const Node& node) {
    if (is<ops::Embedding>(node))
      if (const StoredGroup* group = group_of(node.inputs[kTable])) return rows_of(*group, node);
    const auto cast = match<ops::Cast>(node);
    if (cast && (cast->dtype == DType::f32 || is_low_precision(cast->dtype)))
      if (const StoredGroup* group = group_of(node.inputs[0])) return {{dequantized(*group, cast->dtype)}};
    return std::nullopt;
  }

  // A row of another rank is zero in both parts, so its values are zero too.
  std::vector<Value> rows_of(const StoredGroup& group, const Node& lookup) {
    const Value indices = rewriter_.map(lookup.inputs[1 - kTable]);
    const auto rows = [&](size_t i) {
      return emit_node(*lookup.op, lookup.attributes, {indices, part(group, i)})[0];
    };
    const Value quants = rows(0), scales = rows(1);
    return {
        dequantize(weight_format_of(*group.format), quants, scales, graph_.type(lookup.outputs[0]).dtype)};
  }

  const Graph& graph_;
  Rewriter rewriter_;
  std::map<int32_t, const StoredGroup*> groups_;  // by member
};

// --- read_quantized

std::vector<ValueId> slice(const std::vector<ValueId>& ids, size_t first, size_t count) {
  const auto begin = ids.begin() + static_cast<std::ptrdiff_t>(first);
  return {begin, begin + static_cast<std::ptrdiff_t>(count)};
}

// A node as the op linear, with its weights separated from its other inputs.
struct Product {
  ops::Linear op;
  std::vector<ValueId> before, weights, after;
};

std::optional<Product> product_of(const Graph& graph, const Node& node) {
  if (const auto layer = match<ops::Linear>(node)) {
    if (layer->is_quantized() || layer->epilogue == ops::LinearEpilogue::kWithSwiglu) return std::nullopt;
    const size_t first = layer->first_weight(), count = static_cast<size_t>(layer->weights);
    return Product{layer.attributes, slice(node.inputs, 0, first), slice(node.inputs, first, count),
                   slice(node.inputs, first + count, node.inputs.size() - first - count)};
  }
  const auto matmul = match<ops::Matmul>(node);
  if (!matmul || !matmul->is_plain() || matmul->transpose_a || !matmul->transpose_b ||
      graph.type(node.inputs[1]).shape.rank() != 2)
    return std::nullopt;
  return Product{{.has_addend = node.inputs.size() > 2},
                 {node.inputs[0]},
                 {node.inputs[1]},
                 slice(node.inputs, 2, node.inputs.size() - 2)};
}

class Reader {
 public:
  Reader(const Graph& graph, const PassContext& context)
      : graph_(graph), context_(context), rewriter_(graph) {}

  Graph run() {
    for (const Node& node : graph_.nodes()) {
      if (is<ops::Dequantize>(node)) continue;  // copied later if a node needs it
      const std::optional<Product> product = product_of(graph_, node);
      if (product && reads_quantized(*product)) {
        rewriter_.begin_nodes_from({&node});
        const std::vector<Value> results = emit(*product);
        rewriter_.end_nodes_from();
        rewriter_.replace(node, results);
      } else if (reads_quantized_groups(node)) {
        rewriter_.begin_nodes_from({&node});
        const std::vector<Value> results = emit_groups(node);
        rewriter_.end_nodes_from();
        rewriter_.replace(node, results);
      } else {
        for (const ValueId input : node.inputs) need(input);
        rewriter_.copy(node);
      }
    }
    for (const NamedValue& output : graph_.outputs()) need(output.value);
    for (const StateUpdate& update : graph_.updates()) need(update.value);
    return without_dead_nodes(rewriter_.finish());
  }

 private:
  void need(ValueId id) {
    const auto decoded = match<ops::Dequantize>(graph_, id);
    if (decoded && copied_.insert(id).second) rewriter_.copy(*decoded.node);
  }

  // Returns whether all weights have one format and a kernel reads each of them in it.
  bool reads_quantized(const Product& product) const {
    const auto first = match<ops::Dequantize>(graph_, product.weights[0]);
    return first && context_.target && std::ranges::all_of(product.weights, [&](ValueId id) {
             const auto weight = match<ops::Dequantize>(graph_, id);
             return weight && weight->format == first->format && has_kernel(product, weight);
           });
  }

  // Returns whether a kernel reads the weights of the node's groups in the format in which they are kept.
  bool reads_quantized_groups(const Node& node) const {
    const auto groups = match<ops::GroupedMatmul>(node);
    if (!groups || !groups->transpose_weights || groups->is_quantized() || !context_.target) return false;
    const auto weights = match<ops::Dequantize>(graph_, groups.input(1));
    return weights && runs_natively(context_, op_def<ops::GroupedMatmul>(),
                                    to_attributes(ops::GroupedMatmul{.weight_format = weights->format}),
                                    {graph_.type(groups.input(0)), graph_.type(weights.input(0)),
                                     graph_.type(weights.input(1)), graph_.type(groups.input(2))});
  }
  std::vector<Value> emit_groups(const Node& node) {
    const auto weights = match<ops::Dequantize>(graph_, node.inputs[1]);
    need(node.inputs[0]);
    need(node.inputs[2]);
    return emit_node(ops::GroupedMatmul{.weight_format = weights->format},
                     {rewriter_.map(node.inputs[0]), rewriter_.map(weights.input(0)),
                      rewriter_.map(weights.input(1)), rewriter_.map(node.inputs[2])});
  }

  // Checks each weight alone: a node with several weights is decomposed into such products if no kernel computes it at once.
  bool has_kernel(const Product& product, const Matched<ops::Dequantize>& weight) const {
    const ops::Linear op{
        .activation = product.op.activation, .weight_format = weight->format, .wide = product.op.wide};
    return runs_natively(
        context_, op_def<ops::Linear>(), to_attributes(op),
        {graph_.type(product.before[0]), graph_.type(weight.input(0)), graph_.type(weight.input(1))});
  }

  std::vector<Value> emit(const Product& product) {
    ops::Linear op = product.op;
    for (const ValueId id : product.before) need(id);
    for (const ValueId id : product.after) need(id);
    std::vector<Value> inputs = rewriter_.map(product.before), scales;
    for (const ValueId id : product.weights) {
      const auto weight = match<ops::Dequantize>(graph_, id);
      op.weight_format = weight->format;
      inputs.push_back(rewriter_.map(weight.input(0)));
      scales.push_back(rewriter_.map(weight.input(1)));
    }
    inputs.insert(inputs.end(), scales.begin(), scales.end());
    for (const ValueId id : product.after) inputs.push_back(rewriter_.map(id));
    return emit_node(op, inputs);
  }

  const Graph& graph_;
  const PassContext& context_;
  Rewriter rewriter_;
  std::set<ValueId> copied_;
};

}  // namespace

bool has_quantized(const StateStorage& storage) {
  return std::ranges::any_of(storage.groups, [](const StoredGroup& group) {
    return weight_format_of(*group.format) != WeightFormat::kPlain;
  });
}

Graph decode_quantized(const Graph& graph, const StateStorage& storage) {
  return Decoder(graph, storage).run();
}

Graph decode_slices(const Graph& graph, const PassContext& context) {
  const bool has_slices = context.storage && has_quantized(*context.storage) &&
                          std::ranges::any_of(context.storage->groups, is_slice);
  return has_slices ? decode_quantized(graph, *context.storage) : graph.share();
}

Graph read_quantized(const Graph& graph, const PassContext& context) {
  const bool has_some =
      std::ranges::any_of(graph.nodes(), [](const Node& node) { return is<ops::Dequantize>(node); });
  return has_some ? Reader(graph, context).run() : graph.share();
}

}  // namespace genesis::passes
